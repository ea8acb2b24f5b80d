"""Whole turns that need no classifier, in many languages. Data only.

Written as `rules.py` sees a turn: lower case, no punctuation, no apostrophes, single spaces.
"""


def _set(phrases: str) -> frozenset[str]:
    return frozenset(phrases.split("|"))


GREETINGS = _set(
    "hi|hello|hey|hi there|hello there|hey there|yo|good morning|good afternoon|good evening|good night|howdy|"
    "how are you|hi how are you|hello how are you|hey how are you|whats up|bye|goodbye|see you|test|ping|hallo|"
    "guten morgen|guten tag|guten abend|moin|servus|tschüss|bonjour|salut|bonsoir|au revoir|hola|buenos días|"
    "buenas tardes|buenas noches|adiós|olá|oi|bom dia|boa tarde|boa noite|ciao|buongiorno|buonasera|привет|"
    "здравствуйте|добрый день|доброе утро|пока|cześć|dzień dobry|ahoj|dobrý den|merhaba|selam|günaydın|halo|"
    "xin chào|chào bạn|नमस्ते|नमस्कार|مرحبا|السلام عليكم|سلام|안녕|안녕하세요|こんにちは|おはよう|"
    "おはようございます|こんばんは|你好|您好|早上好|晚上好|嗨|สวัสดี|সালাম|নমস্কার|ہیلو|habari|jambo|kumusta|"
    "வணக்கம்|γεια|γεια σου|hei|moi|szia|helló|salutare|bună|שלום|hej|hej hej"
)
"""Opening or closing a chat, and nothing else."""

THANKS = _set(
    "thanks|thank you|thx|ty|ok ty|ok thanks|okay thanks|thanks a lot|thank you so much|thank you very much|"
    "many thanks|great thanks|perfect thanks|cool thanks|cheers|nice|great|cool|awesome|perfect|wow|lol|haha|"
    "got it|i see|thats all|never mind|nevermind|danke|vielen dank|danke schön|merci|merci beaucoup|gracias|"
    "muchas gracias|obrigado|obrigada|muito obrigado|grazie|grazie mille|bedankt|dank je|спасибо|"
    "спасибо большое|дякую|dzięki|dziękuję|díky|děkuji|teşekkürler|teşekkür ederim|terima kasih|makasih|cảm ơn|"
    "धन्यवाद|शुक्रिया|شكرا|شكرًا|شكرا جزيلا|شكرًا جزيلًا|ممنون|مرسی|감사합니다|고마워|고마워요|ありがとう|"
    "ありがとうございます|谢谢|谢谢你|多谢|谢了|感谢|ขอบคุณ|ধন্যবাদ|شکریہ|asante|asante sana|salamat|நன்றி|"
    "ευχαριστώ|kiitos|köszönöm|köszi|mulțumesc|תודה|tack|tack så mycket"
)
"""Thanks, praise and other small talk."""

APPROVALS = _set(
    "yes|y|yep|yeah|yup|sure|ok|okay|k|go|go on|go ahead|ok go|ok go on|ok go ahead|yes go ahead|yes go on|"
    "yes please|please|please do|yes please do|do it|ok do it|yes do it|ok do that|do that|continue|"
    "please continue|proceed|carry on|keep going|sounds good|sounds good go ahead|lets do it|lets go|next|"
    "both please|commit it|retry|try again|again|ja|ja bitte|weiter|mach weiter|mach das|ja mach mal|los|oui|"
    "vas y|oui vas y|continue stp|allez y|dacord|sí|si|dale|sigue|adelante|continúa|sim|continua|pode ser|"
    "pode continuar|vai|certo|avanti|vai avanti|procedi|ja graag|ga door|ga verder|doe maar|да|давай|продолжай|"
    "дальше|так|продовжуй|tak|dalej|kontynuuj|ano|pokračuj|evet|devam|devam et|tamam|ya|lanjut|lanjutkan|oke|có|"
    "tiếp|tiếp tục|tiếp đi|हाँ|हां|आगे बढ़ो|जारी रखो|نعم|أكمل|تابع|استمر|بله|ادامه بده|네|응|계속|계속해|"
    "계속해줘|はい|続けて|続けてください|お願いします|继续|繼續|好|好的|好的继续|好的 继续|是的|可以|行|嗯|接着说|"
    "开始吧|好的开始吧|好的 开始吧|ต่อ|ต่อเลย|ใช่|হ্যাঁ|চালিয়ে যাও|ہاں|جاری رکھو|ndiyo|endelea|oo|sige|ituloy mo|ஆம்|தொடரவும்|"
    "ναι|συνέχισε|kyllä|jatka|igen|folytasd|da|continuă|כן|תמשיך|fortsätt|japp"
)
"""A go-ahead: what it approves stands in the turn before."""
