// One call of the official Node SDK, told as one line of JSON. Arguments: base URL, key, mode, model, message, extra fields.
import OpenAI from "openai";

const [baseURL, apiKey, mode, model, content, extra = "{}"] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const body = { model, messages: [{ role: "user", content }], ...JSON.parse(extra) };
const told = { reasoning: "", content: "", chunks: 0, usage: null, finish: null, error: null, requestId: null };

try {
  if (mode === "unary") {
    const answer = await client.chat.completions.create(body);
    const { message, finish_reason: finish } = answer.choices[0];
    Object.assign(told, {
      reasoning: message.reasoning_content ?? "",
      content: message.content,
      usage: answer.usage,
      finish,
      requestId: answer._request_id,
    });
  } else {
    const stream = await client.chat.completions.create({
      ...body,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const chunk of stream) {
      told.chunks += 1;
      told.usage = chunk.usage ?? told.usage;
      const choice = chunk.choices[0];
      if (!choice) continue;
      told.reasoning += choice.delta.reasoning_content ?? "";
      told.content += choice.delta.content ?? "";
      told.finish = choice.finish_reason ?? told.finish;
      if (mode === "leave" && told.chunks === 20) break;
    }
  }
} catch (error) {
  told.error = { name: error.constructor.name, status: error.status ?? null, code: error.code ?? null, message: error.message };
}
console.log(JSON.stringify(told));
