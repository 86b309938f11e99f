#include "schedules/zone.h"

#include "support/forked.h"
#include "support/local.h"
#include "support/test.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace delayqueue::schedules {
namespace {

namespace fs = std::filesystem;

const fs::path kSystemZones = "/usr/share/zoneinfo";

// Time zone data in a folder for this test, as TZDIR names it.
class Zones {
 public:
  Zones() {
    fs::create_directory(folder_.file("zones"));
    ::setenv("TZDIR", folder_.file("zones").c_str(), 1);
  }
  ~Zones() { ::unsetenv("TZDIR"); }
  Zones(const Zones&) = delete;
  Zones& operator=(const Zones&) = delete;

  fs::path path(const std::string& name) const { return fs::path(folder_.file("zones")) / name; }
  std::string folder() const { return folder_.file("zones"); }

  // The data of a zone, under a name of this folder, which no other test uses.
  void add(const std::string& name, const std::string& zone) const {
    fs::create_directories(path(name).parent_path());
    fs::copy_file(kSystemZones / zone, path(name));
  }

  void write(const std::string& name, const std::string& contents) const {
    fs::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << contents;
  }

 private:
  test::TempDir folder_;
};

std::string refusal(const std::string& name) {
  try {
    find_zone(name);
    return "";
  } catch (const SetupError& e) {
    return std::string("SetupError: ") + e.what();
  } catch (const std::invalid_argument& e) {
    return std::string("invalid_argument: ") + e.what();
  }
}

// The period in which the moment is.
const Zone::Period& period_at(const Zone& zone, std::int64_t moment) {
  const auto& periods = zone.periods();
  const auto found =
      std::find_if(periods.begin(), periods.end(), [&](const auto& period) { return moment < period.end; });
  REQUIRE(found != periods.end());
  return *found;
}

TEST_CASE("zone R32: what is no name in the database is refused before any file is opened") {
  const Zones zones;
  for (const std::string name : {"",
                                 " ",
                                 "/etc/localtime",
                                 "../zoneinfo/Europe/Berlin",
                                 "Europe/../Europe/Berlin",
                                 "Europe/./Berlin",
                                 "Europe//Berlin",
                                 "Europe/Berlin/",
                                 "/Europe/Berlin",
                                 "Europe/Berlin ",
                                 "Europe/Berlin\n",
                                 "file:Europe/Berlin",
                                 "libc:localtime",
                                 ":Europe/Berlin",
                                 "Fixed/UTC+05:00:00",
                                 "+05:00",
                                 "5",
                                 "zone.tab",
                                 "a/b/c/d/e",
                                 "Europe/K\xc3\xb6ln"}) {
    CAPTURE(name);
    CHECK(has(refusal(name), ": no name of a time zone; expected a name such as \"Europe/Berlin\""));
    CHECK(has(refusal(name), "invalid_argument: zone \""));
  }
  CHECK(has(refusal(std::string("Europe/Berlin\0", 14)), "no name of a time zone"));
  CHECK(has(refusal(std::string(65, 'Z')), "no name of a time zone"));
  const std::string long_name(1'000'000, 'Z');
  CHECK(refusal(long_name).size() < 200);
}

TEST_CASE("zone R32: UTC needs no data") {
  const Zones zones;
  const auto utc = find_zone("UTC");
  REQUIRE(utc->periods().size() == 1);
  CHECK(utc->periods()[0].begin < 0);
  CHECK(utc->periods()[0].end == kEndOfSlots);
  CHECK(utc->periods()[0].offset == 0);
  CHECK(find_zone("UTC") == utc);
}

TEST_CASE("zone R31: each period knows which local times clocks have shown before") {
  // Forward by an hour at 10,000, and back at 20,000.
  const Zone zone(3600, {{10'000, 7200}, {15'000, 7200}, {20'000, 3600}});
  REQUIRE(zone.periods().size() == 3);
  CHECK(period_at(zone, 9'999).seen == zone.periods()[0].begin + 3600);
  CHECK(period_at(zone, 10'000).begin == 10'000);
  CHECK(period_at(zone, 10'000).end == 20'000);
  CHECK(period_at(zone, 10'000).seen == 13'600);
  CHECK(period_at(zone, 20'000).seen == 27'200);
  CHECK(zone.periods()[2].end == kEndOfSlots);
  // Back twice, the second time before clocks have caught up with what they had shown.
  const Zone twice(7200, {{10'000, 3600}, {11'000, 0}, {30'000, 3600}});
  CHECK(period_at(twice, 10'000).seen == 17'200);
  CHECK(period_at(twice, 11'000).seen == 17'200);
  CHECK(period_at(twice, 30'000).seen == 30'000);
}

#ifndef DELAYQUEUE_WITH_ZONES

TEST_CASE("zone R32: a library that was built without zones names the option") {
  CHECK(refusal("Europe/Berlin") ==
        "SetupError: zone \"Europe/Berlin\": this library was built without time zones; use the zone UTC, or build it "
        "with DELAYQUEUE_WITH_ZONES=ON");
}

#else

TEST_CASE("zone R32: the offsets of a zone are those of the database, through 2199") {
  const auto berlin = find_zone("Europe/Berlin");
  const Zone::Period& winter = period_at(*berlin, 1'790'000'000 + 70 * 86'400);  // 2026-11-30
  CHECK(winter.offset == 3600);
  CHECK(winter.begin == 1'792'890'000);  // 2026-10-25 01:00 UTC
  CHECK(winter.end == 1'806'195'600);    // 2027-03-28 01:00 UTC
  CHECK(winter.seen == winter.begin + 7200);
  CHECK(period_at(*berlin, kEndOfSlots - 1).end == kEndOfSlots);
  CHECK(period_at(*berlin, kEndOfSlots - 1).offset == 3600);
  CHECK(berlin->periods().size() > 2 * 200);
  CHECK(find_zone("Asia/Kolkata")->periods().back().offset == 19'800);
  CHECK(find_zone("America/Argentina/Buenos_Aires")->periods().back().offset == -10'800);
  CHECK(find_zone("Etc/GMT+5")->periods().back().offset == -18'000);
  CHECK(find_zone("Etc/UTC")->periods().size() == 1);
}

TEST_CASE("zone R32: an unknown name is refused; the library that reads the data never gets it") {
  const Zones zones;
  zones.add("Etc/UTC", "Etc/UTC");
  const std::string expected = "invalid_argument: zone \"New/Town\": there is no such zone in " + zones.folder() +
                               "; expected a name such as \"Europe/Berlin\"";
  CHECK(refusal("New/Town") == expected);
  fs::create_directories(zones.path("New/Town"));  // a folder is no zone
  CHECK(refusal("New/Town") == expected);
  fs::remove(zones.path("New/Town"));
  REQUIRE(::mkfifo(zones.path("New/Town").c_str(), 0600) == 0);  // a reader would wait for a writer
  CHECK(refusal("New/Town") == expected);
  fs::remove(zones.path("New/Town"));
  zones.write("New/Town", "# a list of leap seconds");
  CHECK(refusal("New/Town") == expected);
  fs::remove(zones.path("New/Town"));
  // CCTZ keeps a name that it could not read: so it was not asked before.
  zones.add("New/Town", "Europe/Berlin");
  CHECK(find_zone("New/Town")->periods().size() > 400);
}

TEST_CASE("zone R32: the zone of a machine is refused, because hosts would differ") {
  CHECK(refusal("localtime") ==
        "invalid_argument: zone \"localtime\": hosts would differ in it; expected a name such as \"Europe/Berlin\"");
}

TEST_CASE("zone R32: without time zone data, and with data that cannot be read, SetupError says what to do") {
  const Zones zones;
  CHECK(refusal("Asia/Tokyo") ==
        "SetupError: zone \"Asia/Tokyo\": there is no time zone data in " + zones.folder() +
            "; install the package tzdata, or set the environment variable TZDIR to its folder");
  zones.add("UTC", "Etc/UTC");
  CHECK(has(refusal("Asia/Tokyo"), "invalid_argument: zone \"Asia/Tokyo\": there is no such zone in "));
  zones.write("Broken/Begin", "TZif");
  zones.write("Broken/Noise", "TZif2" + std::string(4000, '\xff'));
  for (const std::string name : {"Broken/Begin", "Broken/Noise"}) {
    CHECK(refusal(name) == "SetupError: zone \"" + name + "\": CCTZ cannot read the data in " + zones.folder() +
                               "; use that of the package tzdata, or CCTZ 2.4 or later");
  }
  fs::create_symlink(zones.path("Circle"), zones.path("Circle"));
  CHECK(has(refusal("Circle"), "SetupError: zone \"Circle\": cannot open "));
}

std::string big_endian(std::int64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> 8 * i & 0xff);
  return text;
}

// The data of a zone in the short form of zic: changes in 1995 and 1996, and the rule that holds since then.
std::string short_form(std::int64_t offset_1995, std::int64_t offset_1996, const std::string& rule) {
  const auto header = [](int changes, int types, int characters) {
    std::string text = "TZif2" + std::string(15, '\0');
    for (const int count : {0, 0, 0, changes, types, characters}) text += big_endian(count, 4);
    return text;
  };
  const auto type = [](std::int64_t offset, int is_summer, int name) {
    return big_endian(offset, 4) + big_endian(is_summer, 1) + big_endian(name, 1);
  };
  const std::string names("AAA\0BBB\0CCC\0", 12);
  return header(0, 1, 4) + type(0, 0, 0) + names.substr(0, 4) + header(2, 3, 12) + big_endian(811'904'400, 8) +
         big_endian(828'234'000, 8) + big_endian(1, 1) + big_endian(2, 1) + type(0, 0, 0) + type(offset_1995, 0, 4) +
         type(offset_1996, 1, 8) + names + "\n" + rule + "\n";
}

TEST_CASE("zone R32: data in the short form of zic is right or refused, but never a wrong hour") {
  const Zones zones;
  struct Form {
    std::string name;
    std::int64_t offset_1995;
    std::int64_t offset_1996;
    std::string rule;
    std::int64_t january;
    std::int64_t july;
  };
  // Lisbon went from Central European Time to its summer time of an hour less. CCTZ 2.3 stays there for ever.
  for (const Form& row : {Form{"Short/Same", 3600, 7200, "BBB-1CCC,M3.5.0,M10.5.0/3", 3600, 7200},
                          Form{"Short/Lisbon", 3600, 3600, "WET0WEST,M3.5.0/1,M10.5.0", 0, 3600},
                          Form{"Short/Other", -7200, 3600, "<-03>3<-02>,M3.5.0,M10.5.0", -10'800, -7200},
                          Form{"Short/Half", 36'000, 39'600, "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 39'600, 37'800}}) {
    zones.write(row.name, short_form(row.offset_1995, row.offset_1996, row.rule));
    CAPTURE(row.name);
    const std::string error = refusal(row.name);
    if (!error.empty()) {
      CHECK(error == "SetupError: zone \"" + row.name + "\": CCTZ cannot read the data in " + zones.folder() +
                         "; use that of the package tzdata, or CCTZ 2.4 or later");
      CHECK(row.name != "Short/Same");
      continue;
    }
    const auto zone = find_zone(row.name);
    CHECK(period_at(*zone, 1'800'000'000).offset == row.january);  // 2027
    CHECK(period_at(*zone, 1'815'000'000).offset == row.july);
    CHECK(zone->periods().size() > 2 * 200);
  }
}

TEST_CASE("zone R32: data is read once in a process, and at most 1,000 zones are kept") {
  const Zones zones;
  zones.add("Kept", "Europe/Berlin");
  const auto kept = find_zone("Kept");
  fs::remove(zones.path("Kept"));
  CHECK(find_zone("Kept") == kept);
  zones.add("Etc/UTC", "Etc/UTC");
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "Many/Zone_" + std::to_string(i);
    zones.add(name, "Asia/Kolkata");
    REQUIRE(find_zone(name)->periods().back().offset == 19'800);
  }
  zones.add("Many/Last", "Asia/Kolkata");
  const auto last = find_zone("Many/Last");
  CHECK(last->periods().back().offset == 19'800);
  CHECK(find_zone("Many/Last") != last);
  CHECK(find_zone("Kept") == kept);
}

TEST_CASE("zone R32: threads, and a forked process, find zones") {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (const char* name : {"Europe/Rome", "America/New_York", "Asia/Tokyo", "Australia/Lord_Howe"}) {
        if (!find_zone(name)->periods().empty()) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 32);
  CHECK(test::in_child([] { return find_zone("Europe/Rome")->periods().size() > 400; }) == 0);
  CHECK(test::in_child([] { return find_zone("Pacific/Auckland")->periods().size() > 400; }) == 0);
}

#endif

}  // namespace
}  // namespace delayqueue::schedules
