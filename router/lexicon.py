"""The words that betray an ask, by kind and in many languages. Data only: what they weigh is learned elsewhere.

Cues are lower case and parted by bars. A cue that is one run of letters in a script that spaces its words is matched
as a whole word; anything else (phrases, Chinese, Japanese, Thai…) as a substring. A word stands in one kind only: the
first that lists it.
"""

CUES: dict[str, str] = {
    "prove": (
        "prove|proof|disprove|derive|derivation|theorem|lemma|counterexample|induction|irrational|converse|"
        "deduce|infer|entails|implies|conclude|flaw|fallacy|justify|rigorous|show that|if and only if|"
        "true or false|follows from|beweise|beweis|zeige|widerlege|prouve|démontre|démontrer|montrer|preuve|"
        "demuestra|demostrar|prueba|provar|demonstre|dimostra|dimostrare|dimostralo|bewijs|докажи|доказать|"
        "докажите|довести|доведи|udowodnij|wykaż|dokaž|kanıtla|ispatla|ispat|buktikan|chứng minh|सिद्ध|साबित|"
        "أثبت|اثبت|برهن|إثبات|ثابت کن|증명|証明|证明|證明|推导|พิสูจน์|প্রমাণ|ثابت کریں|thibitisha|patunayan|"
        "நிரூபி|αποδείξτε|απόδειξε|todista|bizonyítsd|bizonyítsa|demonstrează|הוכח|הוכיחו|bevisa|bevis|反例|"
        "矛盾|推出"
    ),
    "compute": (
        "calculate|compute|solve|evaluate|determine|integrate|differentiate|factor|factorise|factorize|"
        "simplify|integral|derivative|eigenvalue|remainder|probability|odds|expected|permutations|"
        "combinations|divisible|prime|primes|digits|digit|modulo|mod|sum|product|total|average|median|ratio|"
        "percent|interest|how many|how much|how long|how far|how old|work out|find the|at what|what fraction|"
        "in total|per hour|berechne|rechne|wahrscheinlichkeit|primzahl|wie viele|wie viel|wie lange|calcule|"
        "calculer|combien|probabilité|calcula|calcular|cuántos|cuántas|cuánto|cuanto|probabilidad|primo|"
        "quantos|quantas|quanto|probabilidade|quanti|quante|probabilità|calcola|bereken|hoeveel|kans|вычисли|"
        "сколько|вероятность|посчитай|найди|скільки|обчисли|ile|oblicz|policz|prawdopodobieństwo|kolik|"
        "spočítej|kaç|hesapla|olasılık|asal|berapa|hitung|peluang|bao nhiêu|mấy|xác suất|tính|कितने|कितना|"
        "कितनी|संभावना|كم|احسب|احتمال|چند|چقدر|몇|얼마|확률|いくつ|いくら|何通り|何人|何個|何分|何時間|確率|"
        "求め|多少|几个|几种|幾|概率|质数|素数|求|余数|กี่|เท่าไร|เท่าไหร่|কত|কতজন|کتنے|کتنا|کتنی|ngapi|kiasi|"
        "ilan|magkano|எத்தனை|எவ்வளவு|πόσα|πόσες|πόσο|πόσοι|kuinka|montako|paljonko|hány|mennyi|câte|câți|cât|"
        "כמה|hur många|hur mycket|סיכוי"
    ),
    "debug": (
        "debug|bug|bugs|why|wrong|fails|failing|failed|crash|crashes|deadlock|race|leak|hang|hangs|flaky|"
        "segfault|timeout|intermittent|sometimes|broken|incorrect|unexpected|cause|causes|diagnose|panic|"
        "starve|overflow|root cause|what's going on|not working|doesn't work|stops working|off by one|warum|"
        "wieso|pourquoi|por qué|perché|waarom|почему|чому|dlaczego|proč|neden|niye|kenapa|mengapa|tại sao|"
        "vì sao|क्यों|لماذا|ليه|چرا|왜|なぜ|どうして|原因|为什么|為什麼|为啥|怎么回事|ทำไม|কেন|کیوں|kwa nini|"
        "bakit|ஏன்|γιατί|miksi|miért|de ce|למה|varför|不对"
    ),
    "plan": (
        "plan|schedule|design|architecture|optimise|optimize|optimal|minimise|minimize|maximise|maximize|"
        "allocate|strategy|itinerary|roadmap|rota|roster|timetable|migrate|migration|scalable|tradeoff|"
        "tradeoffs|constraint|constraints|algorithm|complexity|implement|refactor|proposal|trade-off|"
        "trade-offs|shortest path|o(n|fewest|as few as|least number|entwirf|plane|stundenplan|algorithmus|"
        "conçois|concevoir|planifie|diseña|planifica|optimiza|algoritmo|planeje|projete|progetta|pianifica|"
        "ontwerp|спроектируй|план|алгоритм|zaprojektuj|zaplanuj|navrhni|tasarla|planla|rancang|susun|thiết kế|"
        "lập kế hoạch|योजना|डिज़ाइन|صمم خطة|طراحی کن|설계|계획|최소|최대|設計|計画|最小|最大|最短|设计|規劃|"
        "规划|最少|最多|安排|优化|ออกแบบ|วางแผน|পরিকল্পনা|منصوبہ|buni panga|idisenyo|திட்டமிடு|σχεδίασε|"
        "suunnittele|tervezz|proiectează|תכנן|planera"
    ),
    "decide": (
        "should|which|better|worth|cheaper|compare|versus|vs|decide|afford|enough|recommend|fair|best|pick|"
        "choose|advantage|consistent|possible|impossible|guarantee|always|never|must|whose|older|taller|"
        "would it|can we|is it worth|which one|better off|what if|assume|suppose|lohnt|reicht|besser|soll|"
        "sollte|vaut|suffit|mieux|conviene|vale|suficiente|mejor|compensa|basta|melhor|meglio|loont|genoeg|"
        "стоит|хватит|лучше|выгоднее|вистачить|краще|вигідніше|opłaca|wystarczy|vyplatí|stačí|yeter|değer mi|"
        "cukup|lebih|đủ không|nên|बेहतर|काफी|أفضل|يكفي|أيهما|بهتر|کافی|더|충분|どちら|足り|べき|哪个|划算|"
        "够不够|够吗|应该|值得|คุ้ม|พอไหม|ভালো|بہتر|bora|mas|sulit|சிறந்த|συμφέρει|φτάνει|kannattaa|riittää|"
        "megéri|elég|merită|ajunge|כדאי|lönar"
    ),
    "transform": (
        "rewrite|rephrase|reword|paraphrase|summarise|summarize|summary|shorten|translate|translation|edit|"
        "proofread|spelling|grammar|typo|typos|punctuation|format|bullet|bullets|table|convert|extract|rename|"
        "uppercase|lowercase|capitalise|capitalize|json|csv|yaml|markdown|sort|alphabetical|alphabetically|"
        "reorder|formal|friendlier|polite|politer|tone|title|headline|caption|subject|transcribe|copy|tidy|"
        "indent|bold|layout|verbatim|unchanged|list|underline|heading|put it in|turn this|as written|as is|"
        "word for word|lay out|tl;dr|don't solve|do not solve|no need to solve|clean up|make it sound|"
        "fix the spelling|in german|in french|in spanish|into english|into german|into french|into spanish|"
        "übersetze|formuliere|korrigiere|kürze|fasse|zusammenfassung|schreibe|rechtschreibung|liste|traduis|"
        "reformule|résume|corrige|orthographe|raccourcis|traduire|traduce|reescribe|resume|traducir|"
        "ortografía|acorta|traduza|reescreva|resuma|corrija|traduz|traduci|riscrivi|riassumi|correggi|vertaal|"
        "herschrijf|vat|переведи|перепиши|исправь|сократи|переклади|виправ|przetłumacz|przepisz|popraw|streść|"
        "přelož|přepiš|oprav|çevir|düzelt|özetle|terjemahkan|ubah|ringkas|perbaiki|dịch|viết lại|sửa|tóm tắt|"
        "अनुवाद|लिख दो|सुधार|सारांश|ترجم|لخص|صحح|أعد صياغة|ترجمه|خلاصه|번역|요약|고쳐|바꿔|정리해|翻訳|訳し|"
        "要約|直して|書き換え|まとめて|翻译|翻譯|改写|润色|总结|改成|错别字|整理成|列成|แปล|สรุป|แก้คำ|"
        "เขียนใหม่|অনুবাদ|ঠিক করে|ترجمہ|tafsiri|fupisha|isalin|itama|மொழிபெயர்|μετάφρασε|διόρθωσε|käännä|"
        "korjaa|fordítsd|javítsd|tradu|corectează|traduceți|תרגם|תקן|översätt|rätta"
    ),
    "recall": (
        "what|who|when|where|define|definition|meaning|mean|means|name|called|capital|stands|abbreviation|"
        "acronym|symbol|invented|discovered|wrote|author|born|synonym|plural|pronounce|spell|famous|what is|"
        "what's|what does|who is|who was|stand for|how do you say|how do i|what year|was ist|wer hat|"
        "was bedeutet|heißt|qu'est-ce|c'est quoi|qui a|signifie|qué es|qué significa|quién|o que é|quem|"
        "significa|cos'è|chi ha|wat is|wie heeft|что такое|кто|означает|що таке|co to jest|kto|co je|nedir|"
        "kim|apa itu|siapa|là gì|ai là|क्या है|कौन|मतलब|ما هو|ما هي|ما معنى|من هو|چیست|یعنی|뭐야|무엇|뜻|누구|"
        "とは|意味|誰|何ですか|是什么|是啥|什么意思|谁|คืออะไร|แปลว่า|ใคร|কী|কে|মানে|کیا ہے|مطلب|ni nini|nani|"
        "ano ang|sino|என்ன|யார்|τι είναι|ποιος|mikä|kuka|mi az|mit jelent|ce este|cine|מה זה|מי|vad är|vem"
    ),
    "create": (
        "write|poem|haiku|limerick|story|song|lyrics|joke|toast|slogan|invitation|email|mail|message|letter|"
        "post|tweet|blurb|draft|greeting|birthday|compliment|reply|note|caption|thank|rhyme|bedtime|gedicht|"
        "geschichte|schreib|einladung|nachricht|poème|histoire|écris|lettre|poema|cuento|escribe|carta|correo|"
        "mensaje|escreve|escreva|mensagem|scrivi|lettera|messaggio|schrijf|bericht|напиши|письмо|стих|"
        "сообщение|лист|napisz|wiadomość|napiš|zprávu|yaz|mesaj|tulis|tuliskan|surat|viết thư|लिखो|लिखिए|"
        "कविता|संदेश|اكتب|رسالة|قصيدة|بنویس|نامه|써줘|써 줘|메일|편지|시|書いて|メール|手紙|俳句|写一|写个|"
        "写封|邮件|短信|เขียน|ข้อความ|লিখে|লিখুন|لکھ|پیغام|andika|ujumbe|isulat|sumulat|எழுது|γράψε|μήνυμα|"
        "kirjoita|viesti|írj|levelet|üzenet|scrie|כתוב|skriv"
    ),
    "social": (
        "hi|hello|hey|thanks|thank|thx|ty|bye|goodbye|cheers|sorry|congrats|love|lol|haha|morning|night|"
        "please|nice|great|danke|hallo|merci|bonjour|salut|gracias|hola|obrigado|obrigada|olá|grazie|ciao|"
        "bedankt|спасибо|привет|дякую|dzięki|cześć|díky|teşekkürler|merhaba|terima kasih|cảm ơn|धन्यवाद|شكرا|"
        "شكرًا|ممنون|감사|고마워|안녕|ありがとう|こんにちは|谢谢|你好|ขอบคุณ|ধন্যবাদ|شکریہ|asante|salamat|"
        "நன்றி|ευχαριστώ|kiitos|köszi|köszönöm|mulțumesc|תודה|tack"
    ),
    "effort": (
        "carefully|thoroughly|rigorously|step|steps|reasoning|think|explain|detail|ultrathink|step by step|"
        "show your work|show all|show me the|schritt für schritt|étape par étape|paso a paso|passo a passo|"
        "шаг за шагом|adım adım|단계별|一步一步|逐步|詳しく"
    ),
    "light": (
        "just|quick|quickly|simply|simple|briefly|short|only|one-liner|basically|real|no need|quick question|"
        "in one word|one sentence|yes or no|in short|nur kurz|vite|rápido|solo|veloce|только|просто|tylko|jen|"
        "sadece|cuma|chỉ|बस|فقط|그냥|だけ|ただ|只要|就行|แค่|শুধু|صرف|tu lang|மட்டும்|μόνο|vain|csak|doar|רק|"
        "bara"
    ),
    "quantify": (
        "each|every|per|least|most|exactly|twice|half|double|triple|third|remaining|left|more|fewer|less|than|"
        "between|integer|integers|positive|consecutive|distinct|different|pairs|ways|at least|at most|as many|"
        "in a row|no two|jede|jeder|mindestens|höchstens|doppelt|chaque|moins|plus|cada|menos|más|doble|mais|"
        "dobro|ogni|doppio|elke|каждый|каждого|меньше|больше|każdy|každý|her|setiap|mỗi|हर|प्रत्येक|كل|هر|매|"
        "각각|ずつ|毎|每|各|ทุก|ละ|প্রতি|ہر|kila|bawat|ஒவ்வொரு|κάθε|joka|minden|fiecare|כל|varje"
    ),
    "logic": (
        "if|then|unless|except|not|cannot|because|since|given|therefore|either|neither|nor|both|before|after|"
        "until|while|without|whenever|says|lies|knight|knave|wenn|si|se|als|если|якщо|jeśli|když|eğer|kalau|"
        "nếu|अगर|यदि|إذا|لو|اگر|면|れば|たら|如果|若|ถ้า|যদি|kama|kung|என்றால்|αν|jos|ha|dacă|אם|om"
    ),
}

WH_WORDS = frozenset({"what", "who", "when", "where", "which", "whose", "whom", "how", "why"})
AUX_WORDS = frozenset(
    {"is", "are", "was", "were", "do", "does", "did", "can", "could", "will", "would", "should"}
    | {"has", "have", "had", "may"}
)

SYSTEM_CUES: dict[str, str] = {
    "hard": (
        "prove|proof|proofs|derive|theorem|induction|rigorous|tutor|mathematics|maths|math|reasoning|engineer|"
        "debugging|analyst|scientist|planner|olympiad|architect|auditor"
    ),
    "soft": (
        "translator|translate|translation|summarise|summarize|rewrite|copywriter|friendly|chat|support|receptionist|"
        "concierge|greeting|proofreader|companion|brief|short|poet"
    ),
}
"""Words of a system prompt that say what sort of asks will follow. English: so are nearly all system prompts."""
