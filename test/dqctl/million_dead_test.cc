// A million dead letters: reading them stays fast and takes little memory.
#include "preamble.h"

#include "support/command_times.h"

TEST_CASE("a million dead letters: ls --limit 20 takes less than 100 ms, and no reading command more than 50 MiB") {
  test::empty_server();
  test::fill_dead(test::redis(), 1'000'000);
  std::chrono::milliseconds best{1'000'000};
  long most_kib = 0;
  for (int i = 0; i < 10 && best >= std::chrono::milliseconds(100); ++i) {  // the machine may be busy
    const Ran ran = run({"ls", "q", "--state", "dead", "--limit", "20", "-o", "json"});
    CHECK(parse_json(ran.out).at("messages").size() == 20);
    best = std::min(best, ran.took);
    most_kib = std::max(most_kib, ran.peak_kib);
  }
  MESSAGE("ls --limit 20: " << best.count() << " ms, " << most_kib << " KiB");
  CHECK(best < std::chrono::milliseconds(100));
  CHECK(most_kib < test::kMostKib);

  const Ran stuck = run({"stuck", "q"});
  CHECK(stuck.code == 5);  // a million dead letters are an alarm
  CHECK(stuck.peak_kib < test::kMostKib);

  const Ran last = run({"ls", "q", "--state", "dead", "--match", "payload 1000000", "-o", "json"});
  MESSAGE("ls --match of the last: " << last.took.count() << " ms, " << last.peak_kib << " KiB");
  CHECK(parse_json(last.out).at("messages").size() == 1);
  CHECK(last.peak_kib < test::kMostKib);

  test::redis().cmd({"CONFIG", "RESETSTAT"});
  const Ran reasons = run({"reasons", "q", "-o", "json"});
  const test::CommandTimes times = test::command_times(test::redis());
  CHECK_MESSAGE(times.bounded(), times);
  CHECK(times.calls >= 1000);
  MESSAGE("reasons: " << reasons.took.count() << " ms, " << reasons.peak_kib << " KiB");
  CHECK(parse_json(reasons.out).at("counted") == 1'000'000);
  CHECK(reasons.peak_kib < test::kMostKib);
  test::empty_server();
}

TEST_CASE("a hundred thousand dead letters: a complete listing takes no more memory than a page") {
  test::empty_server();
  test::fill_dead(test::redis(), 100'000);
  for (const char* format : {"table", "json", "ndjson"}) {
    Dqctl running({"ls", "q", "--state", "dead", "--limit", "0", "-o", format});
    const Ran ran = expect(running.wait(), 0);
    const auto lines = std::count(ran.out.begin(), ran.out.end(), '\n');
    CHECK(lines >= 100'000);
    CHECK(lines <= 100'002);
    MESSAGE(std::string(format) << ": " << ran.took.count() << " ms, " << ran.peak_kib << " KiB");
    CHECK(ran.peak_kib < test::kMostKib);
  }
  test::empty_server();
}
