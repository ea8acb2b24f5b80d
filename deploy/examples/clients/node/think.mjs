// Live thinking, then the answer, then how the thinking ended: with OpenAI's own SDK.
//
//   npm install
//   node think.mjs --budget 64 "Tom has 3 apples. He buys 4 more and gives 2 to Anna. How many apples does Tom have?"
//
// The gateway is OPENAI_BASE_URL (http://127.0.0.1:8080/v1 if unset), the key OPENAI_API_KEY.
import OpenAI from "openai";
import { apiKey, baseURL, controls, failed, model, question, show, summary } from "./asked.mjs";

try {
  const stream = await new OpenAI({ baseURL, apiKey }).chat.completions.create({
    model,
    messages: [{ role: "user", content: question }],
    stream: true,
    stream_options: { include_usage: true },
    ...controls, // what OpenAI's API has no word for goes beside the rest
  });
  let report, usage;
  for await (const chunk of stream) {
    for (const { delta } of chunk.choices) {
      show("thinking", delta.reasoning_content);
      show("answer", delta.content);
    }
    report = chunk.thinkgate ?? report; // comes with the finish reason
    usage = chunk.usage ?? usage; // comes last
  }
  summary(report, usage.prompt_tokens, usage.completion_tokens);
} catch (error) {
  failed(error);
}
