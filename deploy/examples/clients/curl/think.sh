#!/bin/sh
# Live thinking, then the answer, then how the thinking ended: with curl, sed and awk, and jq where it is there.
#
#   sh think.sh "Tom has 3 apples. He buys 4 more and gives 2 to Anna. How many apples does Tom have?" 64
#
# The second argument, a budget in tokens, may be left out. The gateway is OPENAI_BASE_URL (http://127.0.0.1:8080/v1 if
# unset), the key OPENAI_API_KEY, the model MODEL (auto if unset).
set -eu

# Text as JSON, and back. jq knows every escape; without it, sed and printf know the usual ones.
if command -v jq >/dev/null; then
    escape() { printf '%s' "$1" | jq -Rs .; }
    unescape() { printf '"%s"' "$1" | jq -j .; }
else
    escape() {
        printf '"%s"' "$(printf '%s' "$1" | tr '\t' ' ' | sed 's/[\\"]/\\&/g' | awk 'NR > 1 { printf "\\n" } { printf "%s", $0 }')"
    }
    unescape() { printf '%b' "$(printf '%s' "$1" | sed 's/\\"/"/g')"; }
fi

# A field of an event, as it is escaped there; nothing if it is absent or null. Quotes within a text are escaped, so that
# no text is mistaken for a field.
text() {
    case $2 in *'"'"$1"'":'*) printf '%s' "$2" | sed -n 's/.*"'"$1"'": *"\([^"\\]*\(\\.[^"\\]*\)*\)".*/\1/p' ;; esac
}
number() { printf '%s' "$2" | sed -n 's/.*"'"$1"'": *\([0-9][0-9]*\).*/\1/p'; }

dim='' plain='' part=''
if [ -t 1 ]; then dim=$(printf '\033[2m') plain=$(printf '\033[0m'); fi
show() {
    [ -n "$2" ] || return 0
    if [ "$1" != "$part" ]; then
        printf '%s' "$plain${part:+
}[$1]
"
        [ "$1" != thinking ] || printf '%s' "$dim"
        part=$1
    fi
    unescape "$2"
}

fail() {
    printf '%s\n' "$plain" "$1" >&2
    exit 1
}

question=$(escape "${1:?usage: sh think.sh question [budget]}")
body='{"model": "'${MODEL:-auto}'", "messages": [{"role": "user", "content": '$question'}],
  "stream": true, "stream_options": {"include_usage": true}'${2:+", \"thinking_budget\": $2"}'}'

# --no-buffer: each event is shown when it comes.
curl --silent --show-error --no-buffer "${OPENAI_BASE_URL:-http://127.0.0.1:8080/v1}/chat/completions" \
    --header "Authorization: Bearer ${OPENAI_API_KEY:-none}" --header 'Content-Type: application/json' \
    --data "$body" | {
    pool='' tokens='' ended='' tokens_in='' tokens_out=''
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        *'"error":'*) fail "$(unescape "$(text message "$line")")" ;;
        'data: [DONE]')
            if [ "$tokens" != 0 ]; then thought="$tokens tokens of thought, ended by $ended"; else thought='no thought'; fi
            printf '%s\n' "$plain" "[$pool: $thought; $tokens_in tokens in, $tokens_out out]"
            exit
            ;;
        *'"usage":{'*) tokens_in=$(number prompt_tokens "$line") tokens_out=$(number completion_tokens "$line") ;;
        'data: '*)
            show thinking "$(text reasoning_content "$line")"
            show answer "$(text content "$line")"
            ;;
        esac
        case $line in
        *'"thinkgate":{'*) pool=$(text pool "$line") tokens=$(number tokens "$line") ended=$(text ended_by "$line") ;;
        esac
    done
    fail 'The stream broke off.'
}
