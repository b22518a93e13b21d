// What `prepare` takes for text, and what it does not.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "data/corpus.h"
#include "data/formats/known_format.h"
#include "data/prepare/dataset.h"
#include "data/prepare/prepare.h"
#include "data/support.h"
#include "support/packed.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

using namespace std::string_literals;

std::string prepared_tokens(const Folder& folder, PrepareOptions options, std::string* said = nullptr) {
  const auto closed = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(closed)> printed(std::tmpfile(), closed), lines(std::tmpfile(), closed);
  Log log(lines.get());
  options.out = folder.path("out");
  options.facts = printed.get();
  options.progress = lines.get();
  prepare(options, log);
  if (said != nullptr) {
    said->resize(1 << 16);
    std::rewind(lines.get());
    said->resize(std::fread(said->data(), 1, said->size(), lines.get()));
  }
  return decoded(open_corpus(folder.path("out"), {}, log));
}

std::string refusal(const Folder& folder, PrepareOptions options) {
  std::string text = user_error([&] { prepared_tokens(folder, std::move(options)); });
  EXPECT_FALSE(std::filesystem::exists(folder.path("out"))) << text;
  return text;
}

std::string some_text() {
  std::string text;
  for (std::int64_t i = 0; i < 300000; ++i) text += "line " + std::to_string(i * i % 977) + "\n";
  return text;
}

constexpr const char* lines = "{\"text\": \"one\"}\n{\"text\": \"two, and more\"}\n";

TEST(PrepareCompressed, ReadsWhatIsInside) {
  const std::string text = some_text();
  for (const std::string tokenizer : {"char", "byte"}) {
    const Folder folder;
    EXPECT_EQ(prepared_tokens(folder, {.input = folder.write("t.gz", gzip(text)), .tokenizer = tokenizer}), text);
    EXPECT_EQ(prepared_tokens(folder, {.input = folder.write("named.txt", zstd(text)), .tokenizer = tokenizer}), text);
    EXPECT_EQ(prepared_tokens(folder, {.input = folder.write("two.gz", gzip("ab") + gzip(text)), .tokenizer = tokenizer}),
              "ab" + text);
    EXPECT_EQ(folder.listing("out"), "tokens.json train.bin val.bin");
  }
}

TEST(PrepareCompressed, ReadsJsonlFoldersAndStandardInput) {
  const Folder folder;
  const std::string plain = prepared_tokens(folder, {.input = folder.write("l.jsonl", lines), .tokenizer = "byte"});
  EXPECT_EQ(prepared_tokens(folder, {.input = folder.write("l.jsonl.gz", gzip(lines)), .tokenizer = "byte"}), plain);
  EXPECT_EQ(prepared_tokens(folder, {.input = folder.write("l.jsonl.zst", zstd(lines)), .tokenizer = "byte"}), plain);
  EXPECT_EQ(
      prepared_tokens(folder, {.input = folder.write("dump", gzip(lines)), .tokenizer = "byte", .format = TextFormat::jsonl}),
      plain);
  folder.write("in/a.txt", "plain ");
  folder.write("in/b.txt.gz", gzip("packed "));
  folder.write("in/c.zst", zstd("frame"));
  folder.write("in/d.png", "\x89PNG\r\n");
  folder.write("in/e.tgz", gzip(std::string(257, 'x') + "ustar" + std::string(300, '\0')));
  EXPECT_EQ(prepared_tokens(folder, {.input = folder.path("in")}), "plain packed frame");
  std::FILE* stream = std::fopen(folder.path("in/b.txt.gz").c_str(), "rb");
  EXPECT_EQ(prepared_tokens(folder, {.input = "-", .standard_input = stream}), "packed ");
  std::fclose(stream);
}

TEST(PrepareCompressed, DamageAndEndsThatComeTooSoonAreRefused) {
  const Folder folder;
  const std::string packed = gzip(some_text()), frame = zstd(some_text());
  for (const std::string& name :
       {folder.write("t.gz", packed.substr(0, packed.size() - 5)), folder.write("u.gz", packed.substr(0, 30)),
        folder.write("in/v.zst", frame.substr(0, frame.size() / 2))}) {
    const std::string text = refusal(folder, {.input = name, .tokenizer = "byte"});
    EXPECT_TRUE(contains(text, name + " cannot be unpacked as ")) << text;
    EXPECT_TRUE(contains(text, "it ends too soon")) << text;
  }
  EXPECT_TRUE(contains(refusal(folder, {.input = folder.path("in")}), "v.zst cannot be unpacked"));
  const std::string inner = refusal(folder, {.input = folder.write("a.tar.gz", gzip(std::string(257, 'x') + "ustar"))});
  EXPECT_TRUE(contains(inner, "a.tar.gz is a gzip file, and what is in it is a tar archive")) << inner;
  EXPECT_TRUE(contains(refusal(folder, {.input = folder.write("b.gz", gzip("ab\0cd"s))}), "its byte 2 is zero"));
}

// A text is told again by what is inside, not by how it is packed.
TEST(PrepareCompressed, ADataFileIsKnownAgain) {
  const Folder folder;
  const std::string file = folder.write("t.txt.gz", gzip("some text, and more of it"));
  std::FILE* out = std::tmpfile();
  Log log(out);
  const DatasetRequest request{.folder = folder.path("out"), .file = file};
  ensure_dataset(request, log);
  const auto made = std::filesystem::last_write_time(folder.path("out/tokens.json"));
  ensure_dataset(request, log);
  EXPECT_EQ(std::filesystem::last_write_time(folder.path("out/tokens.json")), made);
  folder.write("t.txt.gz", gzip("some other text, of it"));
  ensure_dataset(request, log);
  EXPECT_EQ(read_description(folder.path("out"))->text->bytes, 22);
  const DatasetRequest list{.folder = folder.path("list"), .file = folder.write("t.json", R"([{"text": "a"}, {"text": "b"}])")};
  ensure_dataset(list, log);
  const auto listed = std::filesystem::last_write_time(folder.path("list/tokens.json"));
  ensure_dataset(list, log);
  EXPECT_EQ(std::filesystem::last_write_time(folder.path("list/tokens.json")), listed);
  std::fclose(out);
}

TEST(PrepareSpace, WhatOutgrowsTheDiskIsRefusedEarly) {
  const Folder folder;
  const auto little = [](const io::Path&) { return std::optional<std::uint64_t>(1 << 20); };
  const std::string text = some_text(), file = folder.write("t.txt", text);
  for (const std::string tokenizer : {"char", "byte"}) {
    const std::string said = refusal(folder, {.input = file, .tokenizer = tokenizer, .free_bytes = little});
    EXPECT_TRUE(contains(said, "the prepared text of " + file + " needs ")) << said;
    EXPECT_TRUE(contains(said, "the file system has 1.00 MiB left")) << said;
  }
  // A bomb: 100 MB in 100 KB.
  const std::string bomb =
      refusal(folder, {.input = folder.write("b.gz", gzip(std::string(100'000'000, 'a'))), .free_bytes = little});
  EXPECT_TRUE(contains(bomb, "b.gz, of which ")) << bomb;
  std::FILE* endless = ::popen("yes", "r");
  const std::string said = refusal(folder, {.input = "-", .standard_input = endless, .free_bytes = little});
  EXPECT_TRUE(contains(said, "standard input, of which 0 B were read, with its tokens needs 1.25 MiB")) << said;
  ::pclose(endless);
}

TEST(PrepareDevices, AreRefused) {
  const Folder folder;
  for (const char* device : {"/dev/zero", "/dev/urandom", "/dev/null"})
    EXPECT_TRUE(contains(refusal(folder, {.input = device}), device + " is a device, and its text may have no end"s));
  std::FILE* zeros = std::fopen("/dev/zero", "rb");
  EXPECT_TRUE(contains(refusal(folder, {.input = "-", .standard_input = zeros}), "standard input is a device"));
  std::fclose(zeros);
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  std::jthread writer([&] {
    std::FILE* file = std::fopen(folder.path("pipe").c_str(), "w");
    std::fputs("from a pipe", file);
    std::fclose(file);
  });
  EXPECT_EQ(prepared_tokens(folder, {.input = folder.path("pipe")}), "from a pipe");
}

struct Foreign {
  std::string bytes;
  const char* what;
  const char* remedy;
};

std::string with(std::string bytes, std::size_t place, std::string_view mark) {
  if (bytes.size() < place + mark.size()) bytes.resize(place + mark.size());
  return bytes.replace(place, mark.size(), mark);
}

TEST(PrepareForeign, FilesAreRefusedByNameWithWhatToDo) {
  const Folder folder;
  const std::vector<Foreign> all{
      {"\xfd\x37zXZ\0abc"s, "an xz file", "xz -dk"},
      {"BZh91AY&SYabc"s, "a bzip2 file", "bzip2 -dk"},
      {"\x04\x22\x4d\x18zzz"s, "an lz4 file", "lz4 -dk"},
      {"LZIP\1\0"s, "an lzip file", "lzip -dk"},
      {"\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff"s, "an lzma file", "xz -dk --format=lzma"},
      {"PK\3\4\x14\0\6\0word/document.xml [Content_Types].xml"s, "an office document", "pandoc"},
      {"PK\3\4\x14\0\0\0folder/a.txt"s, "a zip archive", "unzip"},
      {"PK\3\4\x14\0\0\0arr_0.npy"s, "an archive of NumPy arrays", "numpy.load"},
      {"PK\3\4\0\0\0\0archive/data.pkl"s, "a PyTorch file", "torch.load"},
      {"7z\xbc\xaf\x27\x1c"s, "a 7z archive", "7z x"},
      {with("name", 257, "ustar\0"), "a tar archive", "tar -xf"},
      {"PAR1 only ascii here PAR1"s, "a parquet file", "read_parquet"},
      {"PAR1\x15\0\x80 PAR1"s, "a parquet file", "read_parquet"},
      {"ORC\1\0\3"s, "an ORC file", "read_orc"},
      {"ARROW1\0\0\xff"s, "an Arrow file", "read_feather"},
      {"\xff\xff\xff\xff\x88\1\0\0\x10\0\0\0"s, "an Arrow stream", "from_file"},
      {"Obj\1\4\x16"s, "an Avro file", "fastavro"},
      {"\x89HDF\r\n\x1a\n"s, "an HDF5 file", "h5dump"},
      {"\x93NUMPY\1\0v\0{'descr': '<u2'}"s, "a NumPy array", "numpy.load"},
      {"\x40\0\0\0\0\0\0\0{\"a\": {}}"s + std::string(64, ' '), "a safetensors file", "token ids"},
      {"GGUF\3\0\0\0"s, "a GGUF model", "token ids"},
      {"\n\x0e\n\5<unk>\x15\0\0"s, "a sentencepiece model", "name the text"},
      {"\x80\4\x95\x10\0\0\0\0\0\0\0]\x94."s, "a Python pickle", "Python"},
      {"%PDF-1.7\n%\xe2\xe3"s, "a PDF document", "pdftotext"},
      {"{\\rtf1 words}"s, "an RTF document", "pandoc"},
      {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"s, "an office document of the older kind", "libreoffice"},
      {"SQLite format 3\0"s, "an SQLite database", "sqlite3"},
      {"\x7f"
       "ELF\2\1\1\0"s,
       "a program", "text"},
      {"\x89PNG\r\n\x1a\n"s, "a picture", "text"},
      {"RIFF\x10\0\0\0WAVE"s, "a sound or a film", "text"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"s, "a pointer of Git LFS", "git lfs pull"},
      {"\xff\xfet\0e\0x\0t\0"s, "UTF-16 text", "iconv"},
      {"MMIDIDX\0\0\1\0\0\0\0\0\0\0\x08"s, "a Megatron index", ".bin beside it"},
      {"ids \0\1\0\2\0"s, "is no text: its byte 4 is zero", "--binary"},
      {"\xe9\x81\xff\xa0\x9c\xd3\x82\xb7\xff\xfe\xb1\xc0\x80\x93\x88"s, "is no text: of its first 15 bytes 13", "iconv"},
  };
  for (const Foreign& foreign : all) {
    for (const std::string tokenizer : {"byte", "char"}) {
      const std::string text = refusal(folder, {.input = folder.write("file", foreign.bytes), .tokenizer = tokenizer});
      EXPECT_TRUE(contains(text, foreign.what)) << foreign.what << ": " << text;
      EXPECT_TRUE(contains(text, foreign.remedy)) << foreign.remedy << ": " << text;
    }
    std::FILE* stream = std::fopen(folder.path("file").c_str(), "rb");
    EXPECT_TRUE(contains(refusal(folder, {.input = "-", .tokenizer = "byte", .standard_input = stream}), foreign.what))
        << foreign.what;
    std::fclose(stream);
    const Folder other;
    EXPECT_EQ(prepared_tokens(other, {.input = folder.path("file"), .tokenizer = "byte", .binary = true}), foreign.bytes)
        << foreign.what;
  }
}

TEST(PrepareForeign, TextStaysText) {
  const Folder folder;
  for (const std::string& text : {"ORCs and MZ, BMW and GIF8 are words"s, "PAR1 is a word"s, "caf\xe9 au lait, na\xefve"s,
                                  "\x1b[1mbold\x1b[0m text"s, "%PD no PDF"s, "BM begins this"s, "ID3 tags are text here"s}) {
    EXPECT_EQ(prepared_tokens(folder, {.input = folder.write("t", text), .tokenizer = "byte"}), text);
  }
  // A zero byte far behind the start.
  std::string late = some_text();
  late[1'500'000] = '\0';
  EXPECT_TRUE(contains(user_error([&] { prepared_tokens(folder, {.input = folder.write("t", late), .tokenizer = "byte"}); }),
                       "its byte 1500000 is zero"));
}

std::string row(const std::string& text) { return R"({"text": ")" + text + "\"}\n"; }

TEST(PrepareRows, JsonlIsKnownByItsNameAndWhereThatSaysNothingByItsLines) {
  const Folder folder;
  const std::string rows = row("pp") + row("qq"), list = R"([ {"text": "pp"}, {"text": "qq"} ])", one = R"({"text": "pp"})";
  for (const char* name : {"t.jsonl", "t.ndjson", "t.JSONL", "t.json", "t", "t.json.gz", "t.NDJSON.zst"}) {
    const std::string_view end = std::string_view(name).substr(std::string_view(name).rfind('.') + 1);
    const std::string file = folder.write(name, end == "gz" ? gzip(rows) : end == "zst" ? zstd(rows) : rows);
    EXPECT_EQ(prepared_tokens(folder, {.input = file}), "pp\nqq\n") << name;
  }
  std::FILE* stream = std::fopen(folder.path("t").c_str(), "rb");
  EXPECT_EQ(prepared_tokens(folder, {.input = "-", .standard_input = stream}), "pp\nqq\n");
  std::fclose(stream);
  const std::vector<std::array<std::string, 4>> others{
      {"rows.txt", rows, "its lines are objects in JSON, and its name is not that of JSONL", " --format jsonl reads"},
      {"one.txt", one, "its lines are objects in JSON, and its name is not that of JSONL", " --format jsonl reads"},
      {"list.txt", "[\n  {\n    \"text\": \"pp\"}]", "it is a list of rows in JSON, and its name is not that of JSON",
       " --format jsonl reads a document a row"},
      {"tree.json", "{\n  \"data\": " + list + "}", "it is neither JSONL nor a list of rows in JSON", "jq -c '.MEMBER[]' < "},
      {"config.json", R"({"model_type": "llama"})", "it is neither JSONL nor a list of rows in JSON",
       R"(a row is {"text": "..."}, {"prompt": "...", "completion": "..."} or)"},
      {"table.csv", "text,label\nhello,1\n", "is a table, and no text", "csv.DictReader(sys.stdin)"},
      {"table.TSV", "text\tlabel\nhello\t1\n", "is a table, and no text", "delimiter='\\t'"}};
  for (const auto& [name, content, what, remedy] : others) {
    const std::string file = folder.write(name, content);
    try {
      prepared_tokens(folder, {.input = file});
      ADD_FAILURE() << name;
    } catch (const UserError& error) {
      const Problem& problem = error.problems().front();
      EXPECT_TRUE(contains(problem.message, what)) << problem.message;
      EXPECT_TRUE(contains(problem.remedy, remedy)) << problem.remedy;
      EXPECT_TRUE(contains(problem.remedy, "lockstep prepare " + file + " --format text takes it as it is")) << problem.remedy;
    }
    EXPECT_EQ(prepared_tokens(folder, {.input = file, .format = TextFormat::text}), content);
  }
  const std::string gz = folder.write("rows.csv.gz", gzip("text,label\nhello,1\n"));
  EXPECT_TRUE(contains(user_error([&] { prepared_tokens(folder, {.input = gz}); }), "gzip -dc " + gz + " | python3 "));
  for (const std::string text : {"{a: 1}\n{b: 2}\n", "[see below]", "{\"one\": 1}", "[1] {2} [\"3\"]"}) {
    EXPECT_EQ(prepared_tokens(folder, {.input = folder.write("plain.txt", text)}), text);
  }
}

TEST(PrepareRows, OneRowOrTheStartOfALongOneIsKnown) {
  const Folder folder;
  const std::string long_text(FileStart::most, 'x');
  for (const std::string& rows :
       {row("pp") + row(long_text), row(long_text) + row("pp"), "\xEF\xBB\xBF" + row("pp") + row(long_text)}) {
    for (const char* name : {"t.json", "t"}) {
      const std::string tokens = prepared_tokens(folder, {.input = folder.write(name, rows)});
      EXPECT_EQ(tokens.size(), long_text.size() + 4) << name;
    }
  }
  for (const char* name : {"t.json", "t"}) {
    const std::string file = folder.write(name, R"({"prompt": "a", "completion": "b"})");
    EXPECT_TRUE(contains(user_error([&] { prepared_tokens(folder, {.input = file}); }), "has 1 document that is not empty"))
        << name;
  }
}

// As alpaca_data.json and files of ShareGPT and LLaMA-Factory are.
TEST(PrepareRows, AListInJsonIsReadARowALine) {
  const Folder folder;
  const std::string compact = R"([{"text":"p,]\"[p"},{"text":"q\\"}])",
                    wide =
                        "\xEF\xBB\xBF \n[\r\n  {\r\n    \"text\": \"p,]\\\"[p\"\r\n  },\n  {\n    \"text\": \"q\\\\\",\n    "
                        "\"n\": [1,\n {}]\n  }\n]\n";
  for (const std::string& list : {compact, wide}) {
    for (const char* name : {"t.json", "t", "t.jsonl", "t.json.gz", "t.json.zst"}) {
      const std::string_view end = std::string_view(name).substr(std::string_view(name).rfind('.') + 1);
      const std::string file = folder.write(name, end == "gz" ? gzip(list) : end == "zst" ? zstd(list) : list);
      EXPECT_EQ(prepared_tokens(folder, {.input = file}), "p,]\"[p\nq\\\n") << name << list;
      EXPECT_EQ(prepared_tokens(folder, {.input = file, .format = TextFormat::jsonl}), "p,]\"[p\nq\\\n") << name << list;
    }
    std::FILE* stream = std::fopen(folder.path("t").c_str(), "rb");
    EXPECT_EQ(prepared_tokens(folder, {.input = "-", .standard_input = stream}), "p,]\"[p\nq\\\n");
    std::fclose(stream);
  }
  // Rows across all borders of what is read at a time.
  std::string many = "[", expected;
  for (int i = 0; i < 100'000; ++i) {
    const std::string text = std::to_string(i * 7919 % 10007);
    many += (i == 0 ? "" : ", ") + std::string("{\n\"text\": \"") + text + "\"}";
    expected += text + "\n";
  }
  EXPECT_EQ(prepared_tokens(folder, {.input = folder.write("t.json", many + "]")}), expected);
}

TEST(PrepareRows, ABadListIsRefusedWithTheRow) {
  const Folder folder;
  const std::string good = R"({"text": "pp"})", two = "[" + good + ", " + good;
  const std::vector<std::pair<std::string, const char*>> cases = {
      {two, "t.json, row 2: the list has no end"},
      {two + ",", "t.json, row 3: the list has no end"},
      {two + ",]", "t.json, row 3: it is empty"},
      {"[" + good + ",," + good + "]", "t.json, row 2: it is empty"},
      {two + "}", "t.json, row 2: the list is closed by }"},
      {two + "] " + good, "t.json, row 2: something follows the end of the list"},
      {"[" + good + " " + good + "]", "t.json, row 1: not valid JSON (column"},
      {"[" + good + ", 3, {\"text\": 3}]", "t.json, row 2: this is a number, not an object"},
      {"[" + good + ", {\"text\": 1 2}]", "t.json, row 2: not valid JSON (column"},
      {"[" + good + ", {\"text\": \"a\nb\"}]", "t.json, row 2: not valid JSON (column"},
      {"[" + good + ", {\"text\": [}]", "t.json, row 2: the list has no end"},
      {"[" + good + "]\n[" + good + "]\n", "t.json: it is neither JSONL nor a list"},
  };
  for (const auto& [list, said] : cases) {
    const std::string told = refusal(folder, {.input = folder.write("t.json", list)});
    EXPECT_TRUE(contains(told, said)) << list << ": " << told;
  }
}

TEST(PrepareRows, AFolderSaysWhatHoldsRowsInAnotherWay) {
  const Folder folder;
  folder.write("in/a.txt", "some text");
  folder.write("in/list.txt", R"([{"text": "pp"}])");
  folder.write("in/rows.txt", row("pp") + row("qq"));
  folder.write("in/settings.json", "{\n  \"a\": 1\n}\n");
  folder.write("in/table.csv", "a,b\n");
  std::string said;
  EXPECT_EQ(prepared_tokens(folder, {.input = folder.path("in")}, &said), "some text{\n  \"a\": 1\n}\n");
  for (const char* line :
       {"a list in JSON by another name: list.txt", "JSONL by another name: rows.txt", "a table (.csv): table.csv"})
    EXPECT_TRUE(contains(said, "skipped, " + std::string(line))) << said;
  folder.write("rows/a.JSONL", row("aa"));
  folder.write("rows/b.json", row("bb") + row("cc"));
  for (const TextFormat format : {TextFormat::automatic, TextFormat::jsonl})
    EXPECT_EQ(prepared_tokens(folder, {.input = folder.path("rows"), .format = format}), "aa\nbb\ncc\n");
  folder.write("rows/c.json", R"([{"text": "dd"}])");
  EXPECT_EQ(prepared_tokens(folder, {.input = folder.path("rows")}), "aa\nbb\ncc\ndd\n");
  folder.write("lists/a.txt", R"([{"text": "pp"}])");
  const std::string none = user_error([&] { prepared_tokens(folder, {.input = folder.path("lists")}); });
  EXPECT_TRUE(contains(none, "(1 entries were skipped; a.txt: a list in JSON by another name)")) << none;
}

// The last tenth of all of it would be for validation, and the test's rows would train.
TEST(PrepareRows, SplitsOfADataSetAreWarnedOf) {
  const Folder folder;
  const auto told = [&](const std::string& in) {
    std::string said;
    prepared_tokens(folder, {.input = folder.path(in)}, &said);
    return said;
  };
  folder.write("one/train-00000-of-00002.jsonl", row("aa"));
  folder.write("one/train-00001-of-00002.jsonl", row("bb"));
  EXPECT_FALSE(contains(told("one"), "are read as one text"));
  folder.write("one/test.jsonl", row("cc"));
  const std::string said = told("one");
  EXPECT_TRUE(contains(said, "one/train-00000-of-00002.jsonl and " + folder.path("one/test.jsonl") + " are read as one text"))
      << said;
  folder.write("two/validation.txt", "some");
  folder.write("two/testing.txt", "text");
  EXPECT_FALSE(contains(told("two"), "are read as one text"));
  folder.write("two/train.txt", "more");
  EXPECT_TRUE(contains(told("two"), folder.path("two/train.txt") + " and " + folder.path("two/validation.txt")));
}

}  // namespace
}  // namespace lockstep::data
