#include "data/formats/known_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/shell.h"
#include "base/text/utf8.h"

namespace lockstep::data {
namespace {

using namespace std::string_view_literals;
using Start = FileStart;

// karpathy/llm.c, dev/data/data_common.py, HEADERS_INFO. The numbers of its other files: write_evalfile() there, train_gpt2.py
// and train_llama3.py (write_model, write_tokenizer).
constexpr LlmcTokens llmc_gpt2{.magic = 20240520, .version = 1, .token_bytes = 2, .vocabulary = 50304};
constexpr LlmcTokens llmc_llama3{.magic = 20240801, .version = 7, .token_bytes = 4, .vocabulary = 128256};
constexpr std::int32_t llmc_choices = 20240522, llmc_gpt2_model = 20240326, llmc_llama3_model = 20240803,
                       llmc_vocabulary = 20240328;

std::int32_t number(const Start& start, std::size_t place = 0) {
  std::int32_t value = 0;
  if (start.bytes.size() >= place + sizeof value) std::memcpy(&value, start.bytes.data() + place, sizeof value);
  return value;
}
bool at(const Start& start, std::size_t place, std::string_view mark) {
  return std::string_view(start.bytes).substr(std::min(place, start.bytes.size())).starts_with(mark);
}
bool begins(const Start& start, std::string_view mark) { return at(start, 0, mark); }
// For marks that a text may begin with.
bool begins_no_text(const Start& start, std::string_view mark) {
  if (!begins(start, mark)) return false;
  const PlainText text = plain_text(start.bytes);
  return text.zero() || text.strange > 0;
}
bool holds(const Start& start, std::string_view part) { return start.bytes.find(part) != std::string::npos; }
// Marks of two or three bytes are ids as often as not: what stands behind them has to fit, too.
bool gzip(const Start& start) { return begins(start, "\x1f\x8b\x08") && start.bytes.size() > 3 && (start.bytes[3] & 0xe0) == 0; }
bool bitmap(const Start& start) { return begins(start, "BM") && static_cast<std::uint64_t>(number(start, 2)) == start.size; }
bool windows_program(const Start& start) {
  const std::int32_t header = number(start, 0x3c);
  return begins(start, "MZ") && header > 0 && at(start, static_cast<std::size_t>(header), "PE\0\0"sv);
}
bool pickle(const Start& start) {
  if (start.bytes.size() < 4 || start.bytes[0] != '\x80' || !start.end.ends_with('.')) return false;
  if (start.bytes[1] == 4 || start.bytes[1] == 5) return start.bytes[2] == '\x95';
  return (start.bytes[1] == 2 || start.bytes[1] == 3) && "]}(cXKGJM\x8a"sv.find(start.bytes[2]) != std::string_view::npos;
}
bool zip(const Start& start) { return begins(start, "PK\3\4") || begins(start, "PK\5\6"); }
bool riff(const Start& start, std::string_view kind) { return begins(start, "RIFF") && at(start, 8, kind); }
bool office(const Start& start) { return holds(start, "[Content_Types].xml") || holds(start, "mimetypeapplication/"); }

// A header of JSON behind its length: github.com/huggingface/safetensors, "Format".
bool safetensors(const Start& start) {
  std::uint64_t length = 0;
  if (start.bytes.size() < 10) return false;
  std::memcpy(&length, start.bytes.data(), sizeof length);
  return length >= 2 && length <= start.size - sizeof length && start.bytes[8] == '{' &&
         (start.bytes[9] == '"' || start.bytes[9] == '}');
}
// A first piece "<unk>" of a protocol buffer: sentencepiece_model.proto.
bool sentencepiece(const Start& start) { return begins(start, "\n") && at(start, 2, "\n\5<unk>"); }

constexpr std::string_view no_text = "name text or JSONL";
constexpr std::string_view weights = "this is a model's: name a text, or a file of token ids";
constexpr std::string_view parquet_jsonl =
    R"x(write it as JSONL: python3 -c "import pandas, sys; f = sys.argv[1]; pandas.read_parquet(f).to_json(f + '.jsonl', orient='records', lines=True)" {file})x";
constexpr std::string_view orc_jsonl =
    R"x(write it as JSONL: python3 -c "import pandas, sys; f = sys.argv[1]; pandas.read_orc(f).to_json(f + '.jsonl', orient='records', lines=True)" {file})x";
constexpr std::string_view feather_jsonl =
    R"x(write it as JSONL: python3 -c "import pandas, sys; f = sys.argv[1]; pandas.read_feather(f).to_json(f + '.jsonl', orient='records', lines=True)" {file})x";
constexpr std::string_view arrow_jsonl =
    R"x(write it as JSONL: python3 -c "import datasets, sys; f = sys.argv[1]; datasets.Dataset.from_file(f).to_json(f + '.jsonl')" {file})x";
constexpr std::string_view numpy_ids =
    R"x(write its ids alone: python3 -c "import numpy, sys; f = sys.argv[1]; numpy.load(f).astype('uint32').tofile(f + '.bin')" {file}; they have 4 bytes (uint32))x";

// The rows that are asked in this order: what is read first.
constexpr std::array formats{
    KnownFormat{.what = "a llm.c token file",
                .is = [](const Start& s) { return number(s) == llmc_gpt2.magic; },
                .remedy = "train on it: its folder with train.bin and val.bin is a data.dir",
                .ids = &llmc_gpt2},
    KnownFormat{.what = "a llm.c token file",
                .is = [](const Start& s) { return number(s) == llmc_llama3.magic; },
                .remedy = "train on it: its folder with train.bin and val.bin is a data.dir",
                .ids = &llmc_llama3},
    KnownFormat{.what = "a gzip file", .is = gzip, .remedy = "unpack it: gzip -dk {file}", .compression = io::Compression::gzip},
    KnownFormat{.what = "a zstd file",  // RFC 8878: a frame, or one of the sixteen that are skipped
                .is =
                    [](const Start& s) {
                      return begins(s, "\x28\xb5\x2f\xfd") || (at(s, 1, "\x2a\x4d\x18") && (number(s) & 0xf0) == 0x50);
                    },
                .remedy = "unpack it: zstd -d {file}",
                .compression = io::Compression::zstd},
    KnownFormat{"a llm.c file of multiple-choice questions", [](const Start& s) { return number(s) == llmc_choices; },
                "name one of its token files"},
    KnownFormat{"a llm.c model", [](const Start& s) { return number(s) == llmc_gpt2_model || number(s) == llmc_llama3_model; },
                weights},
    KnownFormat{"a llm.c vocabulary", [](const Start& s) { return number(s) == llmc_vocabulary; }, weights},
    // NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py; TNTIDX: fairseq's before it.
    KnownFormat{"a Megatron index", [](const Start& s) { return begins(s, "MMIDIDX\0\0"sv); }, "name the .bin beside it"},
    KnownFormat{"an index of TorchNet's format", [](const Start& s) { return begins(s, "TNTIDX\0\0"sv); },
                "make the data set again with Megatron's tools/preprocess_data.py, whose index begins with MMIDIDX"},
    KnownFormat{"an xz file",
                [](const Start& s) {
                  return begins(s,
                                "\xfd"
                                "7zXZ\0"sv);
                },
                "unpack it: xz -dk {file}"},
    KnownFormat{"a bzip2 file",
                [](const Start& s) { return begins(s, "BZh") && (at(s, 4, "1AY&SY") || at(s, 4, "\x17\x72\x45\x38\x50\x90")); },
                "unpack it: bzip2 -dk {file}"},
    KnownFormat{"an lz4 file", [](const Start& s) { return begins(s, "\x04\x22\x4d\x18") || begins(s, "\x02\x21\x4c\x18"); },
                "unpack it: lz4 -dk {file}"},
    KnownFormat{"an lzip file", [](const Start& s) { return begins_no_text(s, "LZIP"); }, "unpack it: lzip -dk {file}"},
    KnownFormat{"an lzma file",
                [](const Start& s) { return begins(s, "\x5d\0\0"sv) && at(s, 5, "\xff\xff\xff\xff\xff\xff\xff\xff"); },
                "unpack it: xz -dk --format=lzma {file}"},
    KnownFormat{"an lzop file", [](const Start& s) { return begins(s, "\x89LZO\0"sv); }, "unpack it: lzop -d {file}"},
    KnownFormat{"a compress file", [](const Start& s) { return begins(s, "\x1f\x9d\x90"); }, "unpack it: gzip -dk {file}"},
    KnownFormat{"a snappy file", [](const Start& s) { return begins(s, "\xff\6\0\0sNaPpY"sv); }, "unpack it: snzip -dk {file}"},
    KnownFormat{
        "an archive of NumPy arrays", [](const Start& s) { return zip(s) && holds(s, ".npy"); },
        R"x(write the ids of one alone: python3 -c "import numpy, sys; f = sys.argv[1]; numpy.load(f)[sys.argv[2]].astype('uint32').tofile(f + '.bin')" {file} NAME)x"},
    KnownFormat{
        "a PyTorch file", [](const Start& s) { return zip(s) && holds(s, "data.pkl"); },
        R"x(of a tensor of ids: python3 -c "import torch, sys; f = sys.argv[1]; torch.load(f).numpy().astype('uint32').tofile(f + '.bin')" {file})x"},
    KnownFormat{"an office document or a book", [](const Start& s) { return zip(s) && office(s); },
                "write its text: pandoc --to plain {file} --output TEXT.txt"},
    KnownFormat{"a zip archive", zip, "unpack it: unzip {file} -d FOLDER"},
    KnownFormat{"a 7z archive", [](const Start& s) { return begins(s, "7z\xbc\xaf\x27\x1c"); }, "unpack it: 7z x {file}"},
    KnownFormat{"a rar archive", [](const Start& s) { return begins(s, "Rar!\x1a\x07"); }, "unpack it: unrar x {file}"},
    KnownFormat{"a tar archive", [](const Start& s) { return at(s, 257, "ustar"); }, "unpack it: tar -xf {file} -C FOLDER"},
    KnownFormat{"a cpio archive", [](const Start& s) { return begins_no_text(s, "07070"); }, "unpack it: cpio -id < {file}"},
    KnownFormat{"an ar archive", [](const Start& s) { return begins(s, "!<arch>\n"); }, "unpack it: ar x {file}"},
    KnownFormat{"a parquet file",
                [](const Start& s) {
                  return (begins(s, "PAR1") && s.end.ends_with("PAR1")) || begins_no_text(s, "PAR1") || begins_no_text(s, "PARE");
                },
                parquet_jsonl},
    KnownFormat{"an ORC file", [](const Start& s) { return begins_no_text(s, "ORC"); }, orc_jsonl},
    KnownFormat{"an Arrow file", [](const Start& s) { return begins(s, "ARROW1\0\0"sv) || begins_no_text(s, "FEA1"); },
                feather_jsonl},
    KnownFormat{"an Arrow stream", [](const Start& s) { return begins(s, "\xff\xff\xff\xff") && at(s, 6, "\0\0\x10\0"sv); },
                arrow_jsonl},
    KnownFormat{"an Avro file", [](const Start& s) { return begins(s, "Obj\1"); }, "write it as JSONL: fastavro {file}"},
    KnownFormat{"an HDF5 file", [](const Start& s) { return begins(s, "\x89HDF\r\n\x1a\n"); },
                "write what it holds as text: h5dump {file}"},
    KnownFormat{"a MATLAB file", [](const Start& s) { return begins_no_text(s, "MATLAB 5.0"); }, no_text},
    KnownFormat{"a NumPy array", [](const Start& s) { return begins(s, "\x93NUMPY"); }, numpy_ids},
    KnownFormat{safetensors_name, safetensors, weights},
    KnownFormat{"a GGUF model", [](const Start& s) { return begins_no_text(s, "GGUF"); }, weights},
    KnownFormat{
        "a ggml model",
        [](const Start& s) { return begins_no_text(s, "lmgg") || begins_no_text(s, "fmgg") || begins_no_text(s, "tjgg"); },
        weights},
    KnownFormat{"a sentencepiece model", sentencepiece, "this is a tokenizer: name the text"},
    KnownFormat{"a Python pickle", pickle,
                "it is not opened, for it may hold a program: write what it holds as text, JSONL or raw ids with Python"},
    KnownFormat{"a PDF document", [](const Start& s) { return begins(s, "%PDF-"); }, "write its text: pdftotext {file}"},
    KnownFormat{"a PostScript document", [](const Start& s) { return begins(s, "%!PS-"); },
                "write its text: ps2ascii {file} TEXT.txt"},
    KnownFormat{"an RTF document", [](const Start& s) { return begins(s, "{\\rtf"); },
                "write its text: pandoc --to plain {file} --output TEXT.txt"},
    KnownFormat{"an office document of the older kind",
                [](const Start& s) { return begins(s, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"); },
                "write its text: libreoffice --headless --convert-to txt {file}"},
    KnownFormat{"an SQLite database", [](const Start& s) { return begins(s, "SQLite format 3\0"sv); },
                "write a table of it as JSON: sqlite3 -json {file} 'select * from TABLE'"},
    KnownFormat{"a program",
                [](const Start& s) {
                  return begins(s,
                                "\x7f"
                                "ELF") ||
                         windows_program(s) || begins(s, "\xcf\xfa\xed\xfe") || begins(s, "\xca\xfe\xba\xbe") ||
                         begins(s, "\0asm"sv);
                },
                no_text},
    KnownFormat{"a picture",
                [](const Start& s) {
                  return begins(s, "\x89PNG\r\n") || begins(s, "\xff\xd8\xff") || begins_no_text(s, "GIF8") || bitmap(s) ||
                         begins(s, "II*\0"sv) || begins(s, "MM\0*"sv) || riff(s, "WEBP");
                },
                no_text},
    KnownFormat{"a sound or a film",
                [](const Start& s) {
                  return riff(s, "WAVE") || riff(s, "AVI ") || begins_no_text(s, "OggS") || begins_no_text(s, "fLaC") ||
                         begins_no_text(s, "ID3") || at(s, 4, "ftyp") || begins(s, "\x1a\x45\xdf\xa3");
                },
                no_text},
    KnownFormat{"a pointer of Git LFS, not the file itself",
                [](const Start& s) { return s.size < 1024 && begins(s, "version https://git-lfs.github.com/spec/"); },
                "get the file: git lfs pull"},
    KnownFormat{"UTF-32 text", [](const Start& s) { return begins(s, "\xff\xfe\0\0"sv) || begins(s, "\0\0\xfe\xff"sv); },
                "convert it: iconv -f UTF-32 -t UTF-8 {file} > TEXT.txt"},
    KnownFormat{"UTF-16 text", [](const Start& s) { return begins(s, "\xff\xfe") || begins(s, "\xfe\xff"); },
                "convert it: iconv -f UTF-16 -t UTF-8 {file} > TEXT.txt"},
};

}  // namespace

FileStart start_of(const io::ByteSource& file) {
  FileStart start{.bytes = {}, .size = file.size(), .end = {}};
  start.bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(start.size, FileStart::most)));
  file.read_at(0, std::as_writable_bytes(std::span(start.bytes)));
  start.end.resize(static_cast<std::size_t>(std::min<std::uint64_t>(start.size, 8)));
  file.read_at(start.size - start.end.size(), std::as_writable_bytes(std::span(start.end)));
  return start;
}

const KnownFormat* known_format(const FileStart& start) {
  const auto* const found = std::ranges::find_if(formats, [&](const KnownFormat& format) { return format.is(start); });
  return found == formats.end() ? nullptr : found;
}

Problem refused(const KnownFormat& format, const std::string& name) {
  std::string remedy(format.remedy);
  constexpr std::string_view place = "{file}";
  if (const std::size_t found = remedy.find(place); found != std::string::npos) {
    remedy.replace(found, place.size(), shell_words({name}));
  }
  return {fmt::format("{} is {}", name, format.what), std::move(remedy)};
}

PlainText plain_text(std::string_view bytes) {
  PlainText text{.zero_at = bytes.find('\0'), .strange = 0, .of = bytes.size()};
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint point = code_point_at(bytes, at);
    const bool known_control = point.value == '\t' || point.value == '\n' || point.value == '\r' || point.value == '\f' ||
                               point.value == '\v' || point.value == '\b' || point.value == 0x1b;
    if (point.length == 0 || (point.value < 0x20 && !known_control)) ++text.strange;
    at += std::max<std::size_t>(point.length, 1);
  }
  return text;
}

}  // namespace lockstep::data
