// Live thinking, then the answer, then how the thinking ended: with the AI SDK and its provider for what speaks as
// OpenAI does, which makes reasoning parts of `reasoning_content`.
//
//   npm install
//   node ai-sdk.mjs --budget 64 "Tom has 3 apples. He buys 4 more and gives 2 to Anna. How many apples does Tom have?"
//
// The gateway is OPENAI_BASE_URL (http://127.0.0.1:8080/v1 if unset), the key OPENAI_API_KEY.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamText } from "ai";
import { apiKey, baseURL, controls, failed, model, question, show, summary } from "./asked.mjs";

const thinkgate = createOpenAICompatible({
  name: "thinkgate",
  baseURL,
  apiKey,
  includeUsage: true,
  // Optional: the object in which thinkgate says how the thinking ended becomes provider metadata.
  metadataExtractor: {
    extractMetadata: async ({ parsedBody }) => parsedBody.thinkgate && { thinkgate: parsedBody.thinkgate },
    createStreamExtractor() {
      let report;
      return {
        processChunk: (chunk) => void (report = chunk.thinkgate ?? report),
        buildMetadata: () => report && { thinkgate: report },
      };
    },
  },
});

try {
  const { fullStream } = streamText({
    model: thinkgate(model),
    prompt: question,
    providerOptions: { thinkgate: controls }, // fields under the provider's name go into the body
    onError: () => {}, // it would be printed whole; it is a part of the stream as well
  });
  let report, usage;
  for await (const part of fullStream) {
    if (part.type === "reasoning-delta") show("thinking", part.text);
    if (part.type === "text-delta") show("answer", part.text);
    if (part.type === "finish-step") report = part.providerMetadata.thinkgate;
    if (part.type === "finish") usage = part.totalUsage;
    if (part.type === "error") throw part.error;
  }
  summary(report, usage.inputTokens, usage.outputTokens);
} catch (error) {
  failed(error);
}
