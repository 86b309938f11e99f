#include "schedules/zone.h"

#include "os/descriptor.h"
#include "os/per_process.h"
#include "redis/escaped.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
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

// As CCTZ has it.
std::string folder() {
  const char* const given = ::getenv("TZDIR");
  return given != nullptr && *given != '\0' ? given : "/usr/share/zoneinfo";
}

// The code of the system's error for a file that cannot be opened, or 0 and whether its contents are those of a zone.
struct Opened {
  int error = 0;
  bool is_zone = false;
};

Opened open_zone(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return {errno, false};
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return {errno, false};
  char begin[4] = {};
  const bool is_zone = S_ISREG(status.st_mode) && ::read(file.get(), begin, sizeof begin) == sizeof begin &&
                       std::string_view(begin, sizeof begin) == "TZif";
  return {0, is_zone};
}

// CCTZ keeps every name that it is given, opens any path, and has names that are no files: so it gets only names of
// files that are there.
void check_exists(const std::string& name) {
  const std::string from = folder();
  const Opened opened = open_zone(from + '/' + name);
  if (opened.is_zone) return;
  if (opened.error != 0 && opened.error != ENOENT && opened.error != ENOTDIR) {
    throw SetupError(shown(name) + "cannot open " + redis::escaped(from + '/' + name) + ": " +
                     std::system_category().message(opened.error) +
                     "; time zone data must be readable for this program");
  }
  if (!open_zone(from + "/Etc/UTC").is_zone && !open_zone(from + "/UTC").is_zone) {
    throw SetupError(shown(name) + "there is no time zone data in " + redis::escaped(from) +
                     "; install the package tzdata, or set the environment variable TZDIR to its folder");
  }
  refuse(name, "there is no such zone in " + redis::escaped(from));
}

Zone load(const std::string& name) {
  if (name == "localtime") refuse(name, "hosts would differ in it");
  check_exists(name);
  cctz::time_zone zone;
  if (!cctz::load_time_zone(name, &zone)) {
    throw SetupError(shown(name) + "cannot read the data in " + redis::escaped(folder()) +
                     "; install the package tzdata again");
  }
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
  return Zone(first_offset, changes);
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
