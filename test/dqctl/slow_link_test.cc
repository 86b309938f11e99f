// dqctl behind a slow link: commands that read, send and handle payloads take as long as the bytes need.
#include "preamble.h"

#include "serve.h"
#include "support/proxy.h"
#include "work_support.h"

namespace {

using Strings = std::vector<std::string>;

constexpr std::size_t kRate = 250'000;   // bytes a second
const std::string kLarge(500'000, 'x');  // takes 2 s

struct SlowLink {
  SlowLink() { proxy.rate(kRate, kRate); }

  // Runs dqctl over the link, with a timeout that is shorter than the transfer of a payload.
  Ran run(Strings arguments, const std::string& input = "") const {
    arguments.insert(arguments.end(), {"--command-timeout", "800ms"});
    DqctlOptions options = at(proxy.url());
    options.input = input;
    return test::run(arguments, options);
  }

  mutable test::FaultProxy proxy{test::server().socket()};
};

}  // namespace

TEST_CASE("slow link: send, show, ls, export and import take as long as the bytes need") {
  const SlowLink link;
  const std::string queue = fresh_queue();
  const Ran sent = link.run({"send", queue, "-"}, kLarge);
  CHECK_MESSAGE(sent.code == 0, sent.err);
  const std::string id = test::text_lines(sent.out).at(0).substr(0, 36);
  const Ran shown = link.run({"show", queue, id, "-o", "json"});
  CHECK_MESSAGE(shown.code == 0, shown.err);
  CHECK(has(shown.out, kLarge));
  const Ran exported = link.run({"export", queue});
  CHECK_MESSAGE(exported.code == 0, exported.err);
  const Ran imported = link.run({"import", fresh_queue(), "-"}, exported.out);
  CHECK_MESSAGE(imported.code == 0, imported.err);
  CHECK(has(imported.err + imported.out, "1"));
}

TEST_CASE("slow link: work handles large payloads, and small ones") {
  const SlowLink link;
  test::Work work;
  for (const std::string& payload : {std::string("small"), kLarge, std::string("small"), kLarge}) work.send(payload);
  const Ran ran = link.run(work.by("wc -c", {"--until-empty"}));
  CHECK_MESSAGE(ran.code == 0, ran.err);
  CHECK(has(ran.err, "dqctl: 4 acked, 0 nacked, 0 rejected, 0 put off in "));
  CHECK(work.inspector.counts().totals.nacked == 0);
}

TEST_CASE("slow link: serve shows a large payload") {
  const SlowLink link;
  test::Work work;
  const std::string id = work.send(kLarge);
  link.proxy.rate(kRate / 6, kRate / 6);  // it shows 64 KiB
  test::Served served({"--payloads", "--command-timeout", "800ms"}, at(link.proxy.url()));
  const auto answer = served.get("/api/queues/" + work.name + "/messages/" + id);
  CHECK(answer.status == 200);
  CHECK(has(answer.body, kLarge.substr(0, 60'000)));
}
