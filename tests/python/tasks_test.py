"""Tasks judged by a tiny random model: scores are those of its log-probabilities in float64, by lm-eval's arithmetic.

Skips without PyTorch, transformers and tokenizers. Where lm-eval is there, its own numbers are wanted, too.
"""

import json
import math
import os
import pathlib
import random
import sys
import tempfile
import unittest

try:
    import torch
    from tokenizers import Tokenizer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from families_test import CASES, TOKENIZER, lockstep, make


def text(count):
    return "".join(random.choice("abcdefgh ijk. lmno") for _ in range(count))


def marked(count):
    """Words between marks as WikiHow's articles have them."""
    return "".join(text(3) + random.choice((" [title] ", "[step] ", "  ", "[a\nb]", "[[c]] ", "   ")) for _ in range(count))


class Tasks(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        random.seed(1)
        self.model = make(*CASES["qwen3"])
        self.model.save_pretrained(self.folder / "model")
        (self.folder / "model" / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        self.model.double().eval()
        self.tokenizer = Tokenizer.from_str(json.dumps(TOKENIZER))

    def likelihood(self, context, continuation):
        before, whole = (self.tokenizer.encode(part).ids for part in (context.rstrip(" "), context + continuation))
        with torch.no_grad():
            logits = self.model(torch.tensor([whole])).logits[0].log_softmax(-1)
        told = [logits[i - 1, whole[i]].item() for i in range(len(before), len(whole))]
        greedy = all(logits[i - 1].argmax() == whole[i] for i in range(len(before), len(whole)))
        return sum(told), greedy, len(told)

    def results(self, name, lines, before=""):
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        answer = json.loads(lockstep("eval", self.folder / "model", "--task", f"{before}{path}", "--json"))
        return answer["results"][name]

    def expect(self, found, metric, values):
        mean = sum(values) / len(values)
        error = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
        self.assertAlmostEqual(found[f"{metric},none"], mean, delta=1e-5 * max(1, abs(mean)))
        self.assertAlmostEqual(found[f"{metric}_stderr,none"], error, delta=1e-5 * max(1, error))

    def test_choices(self):
        lines = [{"context": text(12), "choices": [text(random.randint(1, 14)) + "x" for _ in range(4)], "answer": random.randrange(4)}
                 for _ in range(25)]
        found = self.results("choices", lines)
        right = {"acc": [], "acc_norm": [], "acc_bytes": [], "acc_tokens": []}
        for line in lines:
            scored = [self.likelihood(line["context"], " " + choice) for choice in line["choices"]]
            lengths = {"acc": [1] * 4, "acc_norm": [len(c) for c in line["choices"]], "acc_tokens": [tokens for _, _, tokens in scored],
                       "acc_bytes": [len(c.encode()) for c in line["choices"]]}
            for metric, length in lengths.items():
                scores = [total / by for (total, _, _), by in zip(scored, length)]
                right[metric].append(float(scores.index(max(scores)) == line["answer"]))
        for metric, values in right.items():
            self.expect(found, metric, values)

    def test_last_words(self):
        lines = [{"text": text(20) + "x " + text(random.randint(1, 5)).replace(" ", "y") + "z"} for _ in range(20)]
        found = self.results("words", lines, "lambada:")
        sums, greedy = [], []
        for line in lines:
            cut = line["text"].rindex(" ")
            total, all_likeliest, _ = self.likelihood(line["text"][:cut], line["text"][cut:])
            sums.append(total)
            greedy.append(float(all_likeliest))
        perplexity = math.exp(-sum(sums) / len(sums))
        self.assertAlmostEqual(found["perplexity,none"] / perplexity, 1, delta=1e-5)
        self.expect(found, "acc", greedy)

    def test_documents(self):
        """Each token once, in windows of the model's context, given what the window has before it."""
        lines = [{"text": text(130)}, {"text": text(9)}]
        found = self.results("documents", lines)
        total = tokens = 0
        context = self.model.config.max_position_embeddings
        for line in lines:
            ids = [0] + self.tokenizer.encode(line["text"]).ids
            done = 1
            while done < len(ids):
                end = min(len(ids), done + context)
                begin = max(0, end - context - 1)
                window = ids[begin:end]
                with torch.no_grad():
                    logits = self.model(torch.tensor([window[:-1]])).logits[0].log_softmax(-1)
                total += sum(logits[i - 1, window[i]].item() for i in range(done - begin, len(window)))
                done = end
            tokens += len(ids) - 1
        size = sum(len(line["text"]) for line in lines)
        self.assertAlmostEqual(found["token_perplexity,none"] / math.exp(-total / tokens), 1, delta=1e-5)
        self.assertAlmostEqual(found["bits_per_byte,none"] / (-total / size / math.log(2)), 1, delta=1e-5)

    def test_lm_eval(self):
        """The same files by lm-eval itself, with the model in float64."""
        os.environ.update(HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1")
        try:
            import lm_eval
            from lm_eval.models.huggingface import HFLM
            from lm_eval.tasks.hellaswag.utils import process_docs
            from transformers import PreTrainedTokenizerFast
        except ImportError as error:
            self.skipTest(str(error))
        tasks = {
            "choices": ("multiple_choice", "{{context}}", "{{answer}}", ["acc", "acc_norm", "acc_bytes"],
                        [{"context": text(12), "choices": [text(random.randint(1, 14)) + "x" for _ in range(4)],
                          "answer": random.randrange(4)} for _ in range(40)]),
            "words": ("loglikelihood", "{{text.rsplit(' ', 1)[0]}}", "{{' ' + text.rsplit(' ', 1)[1]}}", ["perplexity", "acc"],
                      [{"text": text(20) + "x " + text(3).replace(" ", "y") + "z"} for _ in range(20)]),
            "documents": ("loglikelihood_rolling", "", "{{text}}", ["word_perplexity", "byte_perplexity", "bits_per_byte"],
                          [{"text": text(count)} for count in (130, 9, 75)]),
            "hellaswag": ("multiple_choice", "{{query}}", "{{gold}}", ["acc", "acc_norm"],
                          [{"activity_label": text(5), "ctx_a": marked(2), "ctx_b": random.choice(("", "the End", "a")),
                            "endings": [marked(3) + "x" for _ in range(4)], "label": str(random.randrange(4))} for _ in range(60)])}
        told, asked = [], []
        for name, (kind, question, target, metrics, lines) in tasks.items():
            path = self.folder / f"{name}.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            asked += ["--task", f"lambada:{path}" if name == "words" else path]
            told.append({"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(path)}}, "test_split": "test",
                         "output_type": kind, "doc_to_text": question, "doc_to_target": target, "doc_to_choice": "{{choices}}",
                         "metric_list": [{"metric": metric} for metric in metrics]})
            if kind != "multiple_choice":
                del told[-1]["doc_to_choice"]
            if name == "hellaswag":
                told[-1]["process_docs"] = process_docs
        found = json.loads(lockstep("eval", self.folder / "model", *asked, "--json"))["results"]
        model = HFLM(pretrained=self.model, device="cpu", max_length=self.model.config.max_position_embeddings,
                     tokenizer=PreTrainedTokenizerFast(tokenizer_object=self.tokenizer, eos_token=next(iter(TOKENIZER["model"]["vocab"]))))
        wanted = lm_eval.simple_evaluate(model=model, tasks=told, bootstrap_iters=0)["results"]
        for name, (_, _, _, metrics, _) in tasks.items():
            for metric in metrics:
                right = wanted[name][f"{metric},none"]
                self.assertAlmostEqual(found[name][f"{metric},none"] / right if right else 1 + found[name][f"{metric},none"], 1,
                                       delta=1e-5, msg=f"{name}: {metric}")


if __name__ == "__main__":
    unittest.main()
