// Another user may have prepared the files that dqctl reads or writes.
#include "preamble.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/local.h"
#include "support/sanitized.h"

namespace {

// A sanitizer uses many times the memory of the program itself.
constexpr long kTimes = TEST_SANITIZED ? 20 : 1;

void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

Ran purge_to(const std::string& file, bool append = true) {
  std::vector<std::string> words = {"purge", "q", "--state", "dead", "--older-than", "0s", "--yes", "--backup", file};
  if (append) words.emplace_back("--append");
  return run(words);
}

std::string nested(int levels) {
  return std::string(static_cast<std::size_t>(levels), '[') + std::string(static_cast<std::size_t>(levels), ']');
}

}  // namespace

TEST_CASE("files: a backup is written through no link and into no pipe, folder or file of another user") {
  const test::TempDir folder;
  test::empty_server();
  test::make_dead("q", {"payload"}, "reason");
  write_file(folder.file("victim"), "untouched");
  REQUIRE(::symlink(folder.file("victim").c_str(), folder.file("link").c_str()) == 0);
  REQUIRE(::symlink(folder.file("nothing").c_str(), folder.file("dangling").c_str()) == 0);
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  REQUIRE(::mkdir(folder.file("folder").c_str(), 0700) == 0);
  write_file(folder.file("named"), "untouched");
  REQUIRE(::link(folder.file("named").c_str(), folder.file("named-twice").c_str()) == 0);
  for (const char* name : {"link", "dangling", "pipe", "folder", "named-twice"}) {
    for (const bool append : {true, false}) {
      CAPTURE(name);
      const Ran ran = expect(purge_to(folder.file(name), append), 2, {err_has("--backup")});
      CHECK(ran.took < 10s);
    }
  }
  CHECK(content_of(folder.file("victim")) == "untouched");
  CHECK(content_of(folder.file("named")) == "untouched");
  CHECK(::access(folder.file("nothing").c_str(), F_OK) != 0);
  CHECK(test::counts("q").dead == 1);
  if (::geteuid() == 0) {
    write_file(folder.file("theirs"), "untouched");
    REQUIRE(::chown(folder.file("theirs").c_str(), 65534, 65534) == 0);
    CHECK(purge_to(folder.file("theirs")).code == 2);
    CHECK(content_of(folder.file("theirs")) == "untouched");
  } else {
    MESSAGE("skipped: a file of another user: needs root");
  }
}

TEST_CASE("files: a new backup is readable by its owner alone under any umask, and can be appended to") {
  const test::TempDir folder;
  test::empty_server();
  test::make_dead("q", {"one"}, "reason");
  const mode_t before = ::umask(0);
  CHECK(purge_to(folder.file("backup"), false).code == 0);
  ::umask(before);
  CHECK(test::mode_of(folder.file("backup")) == 0600);
  test::make_dead("q", {"two"}, "reason");
  CHECK(purge_to(folder.file("backup"), false).code == 2);
  CHECK(purge_to(folder.file("backup"), true).code == 0);
  CHECK(lines_of(content_of(folder.file("backup"))).size() == 2);
}

TEST_CASE("files: the man page is not written through a link") {
  const test::TempDir folder;
  write_file(folder.file("victim"), "untouched");
  REQUIRE(::symlink(folder.file("victim").c_str(), folder.file("link").c_str()) == 0);
  CHECK(run({"man", "--file", folder.file("link")}).code == 2);
  CHECK(content_of(folder.file("victim")) == "untouched");
  CHECK(run({"man", "--file", folder.file("page")}).code == 0);
  CHECK(run({"man", "--file", folder.file("page")}).code == 0);
  CHECK(test::mode_of(folder.file("page")) == 0644);
}

TEST_CASE("files: a password is read at once from a small regular file; any other file is refused") {
  const test::TempDir folder;
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  write_file(folder.file("large"), std::string(100'000, 'x'));
  for (const std::string& file : {folder.file("pipe"), std::string("/dev/zero"), std::string("/dev/tty"),
                                  std::string("/dev/null"), folder.file("."), folder.file("large")}) {
    CAPTURE(file);
    const Ran ran = expect(run({"queues", "--password-file", file}), 2, {err_has("--password-file")});
    CHECK(ran.took < 10s);
    CHECK(ran.peak_kib < kTimes * 100'000);
  }
  write_file(folder.file("lines"), "\n" + std::string(100'000, 'x'));
  CHECK(has(run({"queues", "--password-file", folder.file("lines")}).err, "first line"));
  write_file(folder.file("open"), "geheim\n");
  ::chmod(folder.file("open").c_str(), 0644);
  CHECK(has(run({"queues", "--password-file", folder.file("open")}).err, "chmod 600"));
  ::chmod(folder.file("open").c_str(), 0666);
  CHECK(has(run({"queues", "--password-file", folder.file("open")}).err, "chmod go-w"));
}

TEST_CASE("files: a line with JSON nested too deep is refused without a crash") {
  test::empty_server();
  const std::string deep(100'000, '[');
  DqctlOptions options;
  options.input = "{\"payload\": " + deep + "}\n" + deep + "\n{\"payload\": " + nested(100'000) +
                  "}\n{\"payload\": " + nested(500) + "}\n";
  const Ran sent = expect(run({"send", "q", "--ndjson", "-", "-o", "json"}, options), 4);
  CHECK(holds(parse_json(sent.out), {{"sent", 1}, {"failed", 3}}));
  CHECK(has(sent.err, "line 3: is nested deeper than 512 levels"));
  options.input = "{\"id\": " + nested(100'000) + "}\n{\"x\": " + deep + "\n";
  const Ran imported = run({"import", "q", "-", "-o", "json"}, options);
  CHECK(imported.signal == 0);
  CHECK(parse_json(imported.out).at("failed") == 2);
  const Ran cancelled = run({"cancel", "q", "-", "-o", "json"}, options);
  CHECK(cancelled.signal == 0);
  CHECK(parse_json(cancelled.out).at("bad_lines") == 2);
}

TEST_CASE("files: a payload with JSON nested too deep is shown as text") {
  test::empty_server();
  for (const std::string& payload : {std::string(100'000, '['), nested(100'000), std::string(100'000, '{')}) {
    const std::string id = test::send("q", {payload}).front();
    const Ran ran = expect(run({"show", "q", id, "--payload", "json", "-o", "json"}), 0);
    CHECK(parse_json(ran.out).at("messages").at(0).at("payload_json").is_null());
    expect(run({"show", "q", id, "--payload", "json"}), 0, {err_has("nested deeper than 512 levels")});
  }
  const std::string id = test::send("q", {nested(512)}).front();
  CHECK(parse_json(run({"show", "q", id, "--payload", "json", "-o", "json"}).out)
            .at("messages")
            .at(0)
            .at("payload_json")
            .is_array());
}

TEST_CASE("files: a line without an end takes bounded memory and is refused with its number; the next line is read") {
  const test::TempDir folder;
  test::empty_server();
  const std::string good =
      "{\"id\": \"" + std::string(kId) + "\", \"state\": \"ready\", \"retries\": 1, \"payload\": \"x\"}\n";
  const std::string file = folder.file("lines");
  write_file(file, good);
  REQUIRE(::truncate(file.c_str(), 300'000'000) == 0);  // a sparse file of zeros
  std::ofstream(file, std::ios::app) << "\n" << good;
  const Ran imported = expect(run({"import", "q", file, "-o", "json"}), 4);
  CHECK(holds(parse_json(imported.out), {{"alive", 2}, {"failed", 1}}));
  CHECK(has(imported.err, "line 2: is longer than"));
  CHECK(imported.peak_kib < kTimes * 350'000);
  const Ran small = run({"import", "q", file, "--dry-run", "--longest-line", "1M", "-o", "json"});
  CHECK(parse_json(small.out).at("failed") == 1);
  CHECK(small.peak_kib < kTimes * 100'000);
  const Ran sent = run({"send", "q", "--ndjson", file});
  CHECK(has(sent.err, "line 2: is longer than"));
  CHECK(sent.peak_kib < kTimes * 150'000);
}

TEST_CASE("files: a payload from stdin is read no further than the largest size of a message") {
  test::empty_server();
  auto options = with(&DqctlOptions::input, std::string(3 << 20, 'x'));
  expect(run({"send", "q", "-"}, options), 2, {err_has("1,048,576 bytes")});
  options.input = std::string(1 << 20, 'x');
  CHECK(run({"send", "q", "-"}, options).code == 0);
}
