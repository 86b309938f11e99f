#include "store/keys.h"

#include "redis/slot.h"

#include <stdexcept>

namespace delayqueue::store {
namespace {

constexpr unsigned kReach = 32;  // slots; half the distance of the places of 256 partitions

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string base_of(const std::string& prefix, const std::string& queue, bool hash_tag) {
  const std::string base = prefix + ':' + queue;
  return hash_tag ? '{' + base + '}' : base;
}

// The distance of a partition from partition 0 in the ring of slots: the van der Corput sequence in base 2.
unsigned distance_of(unsigned partition) {
  unsigned distance = 0;
  for (unsigned part = redis::kSlots / 2; partition != 0; partition /= 2, part /= 2) distance += partition % 2 * part;
  return distance;
}

// Ends after about 200 numbers, and for every name: numbers of six digits reach every slot.
std::string partition_base(const std::string& name, unsigned partition) {
  const std::string start = name + '#' + std::to_string(partition) + '.';
  const std::uint16_t crc = redis::crc16(start);
  const unsigned place = redis::crc16(name) + distance_of(partition);
  const auto is_near = [&](unsigned s) {
    // This is right for a negative difference, too.
    const unsigned past = (redis::crc16(std::to_string(s), crc) - place) % redis::kSlots;
    return past <= kReach || past >= redis::kSlots - kReach;
  };
  unsigned s = 0;
  while (!is_near(s)) ++s;
  return '{' + start + std::to_string(s) + '}';
}

// Removes the digits at the end; false if there are none.
bool remove_number(std::string_view& text) {
  const std::size_t before = text.size();
  while (!text.empty() && is_digit(text.back())) text.remove_suffix(1);
  return text.size() < before;
}

bool remove(std::string_view& text, char end) {
  if (text.empty() || text.back() != end) return false;
  text.remove_suffix(1);
  return true;
}

}  // namespace

Keys make_keys(const std::string& queue, const KeyScheme& options, unsigned partition) {
  if (partition >= kMostPartitions) {
    throw std::invalid_argument("partition: " + std::to_string(partition) + "; expected 0 to " +
                                std::to_string(kMostPartitions - 1));
  }
  if (partition > 0 && options.bodies_under_dp) {
    throw std::invalid_argument(
        "keys.go.bodies_under_dp: set, but such a queue has one partition, which Go workers serve");
  }
  Keys keys;
  keys.base = partition == 0 ? base_of(options.prefix, queue, options.hash_tag)
                             : partition_base(base_of(options.prefix, queue, false), partition);
  keys.pending = keys.base + ":pending";
  keys.ready = keys.base + ":ready";
  keys.unack = keys.base + ":unack";
  keys.retry = keys.base + ":retry";
  keys.count = keys.base + ":retry:cnt";
  keys.garbage = keys.base + ":garbage";
  keys.attempts = keys.base + ":attempts";
  keys.reason = keys.base + ":reason";
  keys.headers = keys.base + ":headers";
  keys.dead = keys.base + ":dead";
  keys.stats = keys.base + ":stats";
  keys.paused = keys.base + ":paused";
  keys.wake = keys.base + ":wake";
  keys.wakes = keys.base + ":wakes";
  keys.watch = keys.base + ":watch";
  keys.lock = keys.base + ":lock";
  keys.settings = keys.base + ":settings";
  keys.limits = keys.base + ":limits";
  keys.running = keys.base + ":running";
  keys.unique = keys.base + ":unique";
  keys.keys = keys.base + ":keys";
  keys.schedules = keys.base + ":schedules";
  keys.slots = keys.base + ":schedules:next";
  keys.open = keys.base + ":schedules:open";
  keys.consumers = keys.base + ":consumers";
  keys.actions = keys.base + ":actions";
  keys.bodies = (options.bodies_under_dp ? base_of("dp", queue, options.hash_tag) : keys.base) + ":msg:";
  keys.staged = keys.base + ":staged:";
  keys.queues = options.prefix + ":queues";
  keys.channel = "dq:" + queue + ":reportEvents";
  return keys;
}

std::uint16_t name_crc(const std::string& queue, const std::string& prefix) {
  return redis::crc16(base_of(prefix, queue, false));
}

bool is_partition_name(std::string_view queue) {
  return remove_number(queue) && remove(queue, '.') && remove_number(queue) && remove(queue, '#');
}

std::string queue_of(std::string_view base, const std::string& prefix) {
  std::string_view name = base;
  if (name.size() > 2 && name.front() == '{' && name.back() == '}') name = name.substr(1, name.size() - 2);
  const std::string start = prefix + ':';
  if (name.substr(0, start.size()) != start) return std::string(base);
  return std::string(name.substr(start.size()));
}

}  // namespace delayqueue::store
