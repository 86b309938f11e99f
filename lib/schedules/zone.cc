#include "schedules/zone.h"

#include "os/descriptor.h"
#include "os/per_process.h"
#include "redis/escaped.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

#ifdef DELAYQUEUE_WITH_ZONES
#include <cctz/time_zone.h>
#endif

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace delayqueue::schedules {
namespace {

constexpr std::int64_t kBegin = -48 * 60 * 60;  // of the first period

constexpr std::size_t kLongestName = 64;
constexpr std::size_t kMostKept = 1000;

std::string shown(const std::string& name) { return "zone \"" + redis::escaped(name.substr(0, kLongestName)) + "\": "; }

[[noreturn]] void refuse(const std::string& name, const std::string& reason) {
  throw std::invalid_argument(shown(name) + reason + "; expected a name such as \"Europe/Berlin\"");
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// One to four parts with '/' between them, such as America/Argentina/Buenos_Aires. The first begins with a letter.
bool is_name(std::string_view name) {
  if (name.empty() || name.size() > kLongestName || !is_letter(name[0])) return false;
  int slashes = 0;
  char last = 0;
  for (const char c : name) {
    if (c == '/' && (last == '/' || ++slashes > 3)) return false;
    if (c != '/' && !is_letter(c) && (c < '0' || c > '9') && c != '_' && c != '+' && c != '-') return false;
    last = c;
  }
  return last != '/';
}

#ifdef DELAYQUEUE_WITH_ZONES

constexpr std::size_t kMostBytes = 64 * 1024;  // of a file of the database; they have less than 4 KiB
constexpr std::int64_t kYear = 366 * 24 * 60 * 60;

// As CCTZ has it.
std::string folder() {
  const char* const given = ::getenv("TZDIR");
  return given != nullptr && *given != '\0' ? given : "/usr/share/zoneinfo";
}

struct ZoneFile {
  int error = 0;  // of the system: it cannot be opened
  bool is_zone = false;
  std::string rule{};  // for the years to come, such as CET-1CEST,M3.5.0,M10.5.0/3
};

ZoneFile read_zone(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return {errno};
  if (!S_ISREG(status.st_mode)) return {};
  std::string contents(kMostBytes, '\0');
  const ssize_t size = ::read(file.get(), contents.data(), contents.size());
  if (size < 0) return {errno};
  contents.resize(static_cast<std::size_t>(size));
  std::string rule;
  if (contents.size() > 1 && contents.back() == '\n') {
    contents.pop_back();
    rule = contents.substr(contents.rfind('\n') + 1);
  }
  return {0, contents.compare(0, 4, "TZif") == 0, rule};
}

// Reads the name of an offset, and the offset if there is one, from the front of a rule. POSIX counts offsets west.
std::optional<std::int64_t> take_offset(std::string_view& rule) {
  std::size_t name = 0;
  if (rule.substr(0, 1) == "<") {
    name = std::min(rule.find('>'), rule.size() - 1) + 1;
  } else {
    while (name < rule.size() && is_letter(rule[name])) ++name;
  }
  rule.remove_prefix(name);
  const bool is_east = rule.substr(0, 1) == "-";
  if (is_east || rule.substr(0, 1) == "+") rule.remove_prefix(1);
  std::optional<std::int64_t> offset;
  for (std::int64_t unit = 3600; unit > 0; unit /= 60) {
    int number = 0;
    const auto [end, error] = std::from_chars(rule.data(), rule.data() + rule.size(), number);
    if (error != std::errc()) break;
    offset = offset.value_or(0) + number * unit;
    rule.remove_prefix(static_cast<std::size_t>(end - rule.data()));
    if (rule.substr(0, 1) != ":") break;
    rule.remove_prefix(1);
  }
  if (offset && !is_east) offset = -*offset;
  return offset;
}

// Whether the last years of a zone have the two offsets of its rule. The types of the short form that `zic` writes,
// without the years until 2037, are not always those of the rule: then CCTZ 2.3 goes on with wrong offsets.
bool follows_rule(const Zone& zone, std::string_view rule) {
  if (rule.find(",M") == std::string_view::npos) return true;
  const std::int64_t standard = take_offset(rule).value_or(0);
  const std::int64_t summer = take_offset(rule).value_or(standard + 3600);
  const auto& periods = zone.periods();
  if (periods.size() < 2 || periods.back().begin < kEndOfSlots - kYear) return standard == summer;
  const std::int64_t last = periods.back().offset;
  const std::int64_t other = periods[periods.size() - 2].offset;
  return (last == standard && other == summer) || (last == summer && other == standard);
}

// CCTZ keeps every name that it is given, opens any path, and has names that are no files: so it gets only names of
// files that are there.
ZoneFile find_file(const std::string& name) {
  const std::string from = folder();
  ZoneFile file = read_zone(from + '/' + name);
  if (file.is_zone) return file;
  if (file.error != 0 && file.error != ENOENT && file.error != ENOTDIR) {
    throw SetupError(shown(name) + "cannot open " + redis::escaped(from + '/' + name) + ": " +
                     std::system_category().message(file.error) + "; time zone data must be readable for this program");
  }
  if (!read_zone(from + "/Etc/UTC").is_zone && !read_zone(from + "/UTC").is_zone) {
    throw SetupError(shown(name) + "there is no time zone data in " + redis::escaped(from) +
                     "; install the package tzdata, or set the environment variable TZDIR to its folder");
  }
  refuse(name, "there is no such zone in " + redis::escaped(from));
}

Zone load(const std::string& name) {
  if (name == "localtime") refuse(name, "hosts would differ in it");
  const ZoneFile file = find_file(name);
  const std::string unreadable = shown(name) + "CCTZ cannot read the data in " + redis::escaped(folder()) +
                                 "; use that of the package tzdata, or CCTZ 2.4 or later";
  cctz::time_zone zone;
  if (!cctz::load_time_zone(name, &zone)) throw SetupError(unreadable);
  const auto moment = [](std::int64_t seconds) { return cctz::time_point<cctz::seconds>(cctz::seconds(seconds)); };
  const cctz::civil_second local_1970(1970, 1, 1, 0, 0, 0);
  std::int64_t at = kBegin;
  std::int64_t offset = zone.lookup(moment(at)).offset;
  const std::int64_t first_offset = offset;
  std::vector<Zone::Change> changes;
  cctz::time_zone::civil_transition change;
  while (zone.next_transition(moment(at), &change)) {
    const std::int64_t begin = (change.from - local_1970) - offset;
    if (begin <= at || begin >= kEndOfSlots) break;
    at = begin;
    offset = (change.to - local_1970) - at;
    changes.push_back({at, offset});
  }
  Zone loaded(first_offset, changes);
  if (!follows_rule(loaded, file.rule)) throw SetupError(unreadable);
  return loaded;
}

#else

Zone load(const std::string& name) {
  throw SetupError(shown(name) +
                   "this library was built without time zones; use the zone UTC, or build it with "
                   "DELAYQUEUE_WITH_ZONES=ON");
}

#endif

struct KeptZones {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Zone>> zones{{"UTC", std::make_shared<const Zone>(0)}};
};

PerProcess<KeptZones> kept_zones;

}  // namespace

Zone::Zone(std::int64_t first_offset, const std::vector<Change>& changes) {
  periods_.push_back({kBegin, kEndOfSlots, first_offset, kBegin + first_offset});
  for (const Change& change : changes) {
    Period& last = periods_.back();
    if (change.offset == last.offset) continue;
    last.end = change.begin;
    const LocalTime seen = std::max(last.seen, last.end + last.offset);
    periods_.push_back({change.begin, kEndOfSlots, change.offset, seen});
  }
}

std::shared_ptr<const Zone> find_zone(const std::string& name) {
  if (!is_name(name)) refuse(name, "no name of a time zone");
  KeptZones& kept = kept_zones.get();
  const std::lock_guard lock(kept.mutex);
  const auto found = kept.zones.find(name);
  if (found != kept.zones.end()) return found->second;
  auto zone = std::make_shared<const Zone>(load(name));
  if (kept.zones.size() < kMostKept) kept.zones.emplace(name, zone);
  return zone;
}

}  // namespace delayqueue::schedules
