#include "inspector/message_list.h"

#include "queue/state.h"
#include "redis/escaped.h"
#include "store/record.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace delayqueue {
namespace {

// A cursor is a letter for its state and a position, in hex. If it is not one of partition 0 alone, "." and the
// partition follow, and "." and a position for each partition behind it.
constexpr std::string_view kLetters = "?prutd";

char letter_of(State state) { return kLetters[static_cast<std::size_t>(state)]; }

std::string hex_of(std::size_t number) {
  char digits[16];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number, 16).ptr;
  return {std::begin(digits), end};
}

[[noreturn]] void refuse_cursor(const std::string& cursor) {
  throw std::invalid_argument("cursor: \"" + redis::escaped(cursor) +
                              "\"; expected `next` of a page of the same state");
}

// The numbers of a cursor.
std::vector<std::size_t> numbers_of(const std::string& cursor) {
  std::vector<std::size_t> numbers;
  const char* const end = cursor.data() + cursor.size();
  for (const char* at = cursor.data() + 1;; ++at) {
    std::size_t number = 0;
    const auto [stop, error] = std::from_chars(at, end, number, 16);
    if (error != std::errc() || (stop != end && *stop != '.')) refuse_cursor(cursor);
    numbers.push_back(number);
    if (stop == end) return numbers;
    at = stop;
  }
}

redis::Answer<store::Page> ask_page(redis::Pipeline& pipeline, const store::Keys& keys, State state, std::size_t from,
                                    std::size_t most) {
  return is_list(state) ? store::page_of_list(pipeline, keys, key_of(keys, state), from, most)
                        : store::page_of_zset(pipeline, keys, key_of(keys, state), from, most);
}

}  // namespace

MessageInfo info_of(store::Entry entry, State state, unsigned partition) {
  MessageInfo info;
  info.id = std::move(entry.id);
  info.state = state;
  info.at = store::from_us(entry.score_us);
  info.sent = store::time_of_id(info.id);
  if (state == State::retry) info.waits_since = store::from_us(entry.last_end_us);
  info.held = state == State::unack && entry.score_us && store::is_lease(*entry.score_us);
  // attempts has no entry for a first delivery: a message in unack or dead without an entry was delivered once.
  const bool once = entry.deliveries == 0 && !entry.undelivered && (state == State::unack || state == State::dead);
  info.deliveries = once ? 1 : entry.deliveries;
  info.retries = entry.retries;
  info.reason = std::move(entry.reason);
  info.partition = partition;
  return info;
}

std::string MessageList::text_of(const Place& place) const {
  std::size_t count = place.positions.size();
  while (count > 1 && place.positions[count - 1] == 0) --count;
  std::string text = letter_of(state_) + hex_of(place.positions.front());
  if (partitions_.only() || (place.partition == 0 && count == 1)) return text;
  text += '.' + hex_of(place.partition);
  for (std::size_t i = 1; i < count; ++i) text += '.' + hex_of(place.positions[i]);
  return text;
}

MessageList::Place MessageList::place_of(const std::string& cursor) const {
  if (cursor.front() != letter_of(state_)) refuse_cursor(cursor);
  std::vector<std::size_t> numbers = numbers_of(cursor);
  Place place{partitions_.only().value_or(0), {numbers.front()}};
  if (numbers.size() == 1) return place;
  const std::size_t positions = numbers.size() - 1;
  if (partitions_.only() || numbers[1] >= store::kMostPartitions || positions > store::kMostPartitions - numbers[1]) {
    refuse_cursor(cursor);
  }
  place.partition = static_cast<unsigned>(numbers[1]);
  place.positions.insert(place.positions.end(), numbers.begin() + 2, numbers.end());
  return place;
}

// The place of the partition behind this one; unset: there is none.
std::optional<MessageList::Place> MessageList::next_partition(const Place& place) {
  if (partitions_.only() || place.partition + 1 >= partitions_.top()) return std::nullopt;
  Place next{place.partition + 1, {place.positions.begin() + 1, place.positions.end()}};
  if (next.positions.empty()) next.positions.push_back(0);
  return next;
}

store::Page MessageList::read(unsigned partition, std::size_t from, std::size_t most) {
  SharedConnection& connection = partitions_.of(partition);
  return connection.ask([&](redis::Pipeline& pipeline) {
    return ask_page(pipeline, connection.store().keys(), state_, from, std::min(most, kStep));
  });
}

MessagePage MessageList::at(const std::string& cursor) {
  partitions_.check_only();
  const Place place = place_of(cursor);
  if (place.partition > 0 && !partitions_.only() && place.partition >= partitions_.top()) refuse_cursor(cursor);
  return by_partition(place, std::nullopt);
}

MessagePage MessageList::first(bool merge) {
  partitions_.check_only();
  if (!merge) return by_partition({partitions_.only().value_or(0), {0}}, std::nullopt);
  const std::size_t most = std::min(limit_, kStep);
  const auto answers = partitions_.ask_all([&](redis::Pipeline& pipeline, const store::Store& store) {
    return ask_page(pipeline, store.keys(), state_, 0, most);
  });
  if (answers.size() == 1) return by_partition({answers.front().partition, {0}}, answers.front().get());
  return merged(answers, most);
}

// A page has messages of one partition. `read_before`: the answer to the first request.
MessagePage MessageList::by_partition(Place place, std::optional<store::Page> read_before) {
  MessagePage page;
  while (true) {
    bool more = true;
    while (more && page.messages.size() < limit_) {
      const std::size_t most = std::min(limit_ - page.messages.size(), kStep);
      store::Page part = read_before ? *std::exchange(read_before, std::nullopt)
                                     : read(place.partition, place.positions.front(), most);
      for (store::Entry& entry : part.entries) {
        page.messages.push_back(info_of(std::move(entry), state_, place.partition));
      }
      place.positions.front() += part.ids_read;
      more = part.ids_read == most;
    }
    const std::optional<Place> following = next_partition(place);
    if (following) page.next_partition = text_of(*following);
    page.next = more ? text_of(place) : page.next_partition;
    if (more || !following || !page.messages.empty()) return page;
    place = *following;
    page.next_partition.clear();
  }
}

MessagePage MessageList::merged(const std::vector<PartitionAnswer<store::Page>>& answers, std::size_t most) {
  std::vector<Source> sources;
  for (const PartitionAnswer<store::Page>& answer : answers) {
    const store::Page& page = answer.get();
    sources.push_back({answer.partition, page.entries, 0, 0, page.ids_read, page.ids_read == most});
  }
  MessagePage page;
  while (page.messages.size() < limit_) {
    Source* first = nullptr;
    for (Source& source : sources) {
      if (fill(source) && (first == nullptr || is_before(source, *first))) first = &source;
    }
    if (first == nullptr) return page;
    page.messages.push_back(info_of(first->entries[first->taken++], state_, first->partition));
    ++first->turn;
  }
  Place place{0, {}};
  bool all_read = true;
  for (const Source& source : sources) {
    const bool left = source.taken < source.entries.size();
    all_read = all_read && !left && !source.more;
    place.positions.push_back(left ? source.begin + source.entries[source.taken].offset : source.end);
  }
  if (!all_read) page.next = text_of(place);
  return page;
}

// Reads further messages of the partition if all are taken. False: there are none.
bool MessageList::fill(Source& source) {
  while (source.taken == source.entries.size() && source.more) {
    store::Page page = read(source.partition, source.end, limit_);
    source.entries = std::move(page.entries);
    source.taken = 0;
    source.begin = source.end;
    source.end += page.ids_read;
    source.more = page.ids_read == std::min(limit_, kStep);
  }
  return source.taken < source.entries.size();
}

// By time; without a time by turns. The lower partition first if these are equal.
bool MessageList::is_before(const Source& a, const Source& b) const {
  if (is_list(state_)) return a.turn < b.turn;
  return a.entries[a.taken].score_us < b.entries[b.taken].score_us;
}

std::string MessagePage::next_after(std::uint64_t freed) const {
  if (next.empty()) return next;
  std::vector<std::size_t> numbers = numbers_of(next);
  std::string cursor(1, next.front());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool is_position = i != 1;  // the second number is the partition
    const std::size_t back = is_position ? std::min<std::uint64_t>(numbers[i], freed) : 0;
    cursor += (i == 0 ? "" : ".") + hex_of(numbers[i] - back);
  }
  return cursor;
}

}  // namespace delayqueue
