#include "inspector/message_list.h"

#include "queue/state.h"
#include "redis/escaped.h"
#include "store/record.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <limits>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace delayqueue {
namespace {

// A cursor is a letter for its state, "n" if the newest messages come first, a partition in hex or "m" (merged) for all
// of them, and for this and each partition behind it "." and the place, in hex: of a list the number of ids, of a zset
// the bytes of the place. "d0.31" is a place in partition 0 of dead.
constexpr std::string_view kLetters = "?prutd";
constexpr char kNewest = 'n', kMerged = 'm';
constexpr std::size_t kMostSkipped = 1ULL << 52;  // ids of a list: Lua counts so far exactly

char letter_of(State state) { return kLetters[static_cast<std::size_t>(state)]; }

bool is_list_letter(char letter) { return letter == letter_of(State::ready) || letter == letter_of(State::retry); }

std::string hex_of(std::size_t number) {
  char digits[16];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number, 16).ptr;
  return {std::begin(digits), end};
}

[[noreturn]] void refuse_cursor(const std::string& cursor) {
  throw std::invalid_argument("cursor: \"" + redis::escaped(cursor) +
                              "\"; expected `next` of a page of the same state");
}

std::optional<std::size_t> number_in_hex(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::string bytes_in_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto number = static_cast<unsigned char>(byte);
    text += (number < 16 ? "0" : "") + hex_of(number);
  }
  return text;
}

std::optional<std::string> bytes_of_hex(std::string_view text) {
  std::string bytes;
  for (; text.size() >= 2; text.remove_prefix(2)) {
    const auto number = number_in_hex(text.substr(0, 2));
    if (!number) return std::nullopt;
    bytes += static_cast<char>(*number);
  }
  return text.empty() ? std::optional(bytes) : std::nullopt;
}

// The number of ids before a place in a list.
std::size_t skipped(const std::string& after) { return after.empty() ? 0 : std::stoull(after); }

// A place as a cursor has it.
std::string coded(const std::string& after, bool is_list) {
  return is_list ? hex_of(skipped(after)) : bytes_in_hex(after);
}

std::optional<std::string> decoded(std::string_view text, bool is_list) {
  if (is_list) {
    const auto number = number_in_hex(text);
    return number && *number <= kMostSkipped ? std::optional(std::to_string(*number)) : std::nullopt;
  }
  auto place = bytes_of_hex(text);
  return place && (place->empty() || store::is_place(*place)) ? std::move(place) : std::nullopt;
}

redis::Answer<store::Page> ask_page(redis::Pipeline& pipeline, const store::Keys& keys, State state,
                                    const store::PageStart& start, std::size_t most) {
  return is_list(state) ? store::page_of_list(pipeline, keys, key_of(keys, state), start, most)
                        : store::page_of_zset(pipeline, keys, key_of(keys, state), start, most);
}

// A score as Redis writes it: without a locale, unlike strtod.
double number_of(const std::string& score) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (score == "inf" || score == "-inf") return score.front() == '-' ? -kInfinite : kInfinite;
  std::istringstream in(score);
  in.imbue(std::locale::classic());
  double number = 0;
  in >> number;
  return number;
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
  std::string text(1, letter_of(state_));
  if (newest_) text += kNewest;
  text += place.partition ? hex_of(*place.partition) : std::string(1, kMerged);
  std::size_t count = place.after.size();
  while (count > 1 && place.after[count - 1].empty()) --count;
  for (std::size_t i = 0; i < count; ++i) text += '.' + coded(place.after[i], is_list(state_));
  return text;
}

MessageList::Place MessageList::place_of(const std::string& cursor) const {
  std::string_view rest = cursor;
  std::string start(1, letter_of(state_));
  if (newest_) start += kNewest;
  if (rest.substr(0, start.size()) != start) refuse_cursor(cursor);
  rest.remove_prefix(start.size());
  const std::string_view which = rest.substr(0, std::min(rest.find('.'), rest.size()));
  rest.remove_prefix(which.size());
  Place place{std::nullopt, {}};
  if (which != std::string_view(&kMerged, 1) || is_list(state_)) {
    const auto partition = number_in_hex(which);
    if (!partition || *partition >= store::kMostPartitions) refuse_cursor(cursor);
    place.partition = static_cast<unsigned>(*partition);
  }
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view text = rest.substr(0, std::min(rest.find('.'), rest.size()));
    auto after = decoded(text, is_list(state_));
    if (!after) refuse_cursor(cursor);
    place.after.push_back(std::move(*after));
    rest.remove_prefix(text.size());
  }
  const bool is_one = place.after.size() == 1;
  const bool fits =
      is_list(state_) ? place.after.size() <= store::kMostPartitions - place.partition.value_or(0) : is_one;
  const auto only = partitions_.only();
  if (place.after.empty() || !fits || (only && (place.partition != only || !is_one))) refuse_cursor(cursor);
  return place;
}

// The place of the partition behind this one; unset: there is none.
std::optional<MessageList::Place> MessageList::next_partition(const Place& place) {
  if (partitions_.only() || *place.partition + 1 >= partitions_.top()) return std::nullopt;
  Place next{*place.partition + 1, {place.after.begin() + 1, place.after.end()}};
  if (next.after.empty()) next.after.emplace_back();
  return next;
}

store::Page MessageList::read(unsigned partition, const std::string& after, std::size_t most) {
  SharedConnection& connection = partitions_.of(partition);
  return connection.ask([&](redis::Pipeline& pipeline) {
    return ask_page(pipeline, connection.moves().keys(), state_, {newest_, after}, std::min(most, kStep));
  });
}

std::optional<std::string> MessageList::place_after(const store::Page& page, const std::string& after,
                                                    std::size_t most) const {
  if (page.ids_read < std::min(most, kStep)) return std::nullopt;
  if (is_list(state_)) return std::to_string(skipped(after) + page.ids_read);
  // Only a server that does not run the script has read ids without an entry of each.
  return page.entries.empty() ? std::nullopt : std::optional(store::place_of(page.entries.back()));
}

MessagePage MessageList::at(const std::string& cursor) {
  partitions_.check_only();
  const Place place = place_of(cursor);
  if (!place.partition) return merged(place.after.front());
  if (*place.partition > 0 && !partitions_.only() && *place.partition >= partitions_.top()) refuse_cursor(cursor);
  return by_partition(place, std::nullopt);
}

MessagePage MessageList::first(bool merge) {
  partitions_.check_only();
  return merge ? merged("") : by_partition({partitions_.only().value_or(0)}, std::nullopt);
}

// A page has messages of one partition. `read_before`: the answer to the first request, for `limit_` messages.
MessagePage MessageList::by_partition(Place place, std::optional<store::Page> read_before) {
  MessagePage page;
  while (true) {
    bool more = true;
    while (more && page.messages.size() < limit_) {
      std::string& after = place.after.front();
      const std::size_t most = limit_ - page.messages.size();
      store::Page part = read_before ? *std::exchange(read_before, std::nullopt) : read(*place.partition, after, most);
      const std::optional<std::string> next = place_after(part, after, most);
      for (store::Entry& entry : part.entries) {
        page.messages.push_back(info_of(std::move(entry), state_, *place.partition));
      }
      more = next.has_value();
      if (next) after = *next;
    }
    const std::optional<Place> following = next_partition(place);
    if (following) page.next_partition = text_of(*following);
    page.next = more ? text_of(place) : page.next_partition;
    if (more || !following || !page.messages.empty()) return page;
    place = *following;
    page.next_partition.clear();
  }
}

// A page has messages of all partitions. The next page of a zset, too; of a list it is one of the first partition.
MessagePage MessageList::merged(const std::string& after) {
  const std::size_t most = std::min(limit_, kStep);
  const auto answers = partitions_.ask_all([&](redis::Pipeline& pipeline, const store::Moves& moves) {
    return ask_page(pipeline, moves.keys(), state_, {newest_, after}, most);
  });
  if (answers.size() == 1) return by_partition({answers.front().partition, {after}}, answers.front().get());
  std::vector<Source> sources;
  for (const PartitionAnswer<store::Page>& answer : answers) {
    Source& source = sources.emplace_back();
    source.partition = answer.partition;
    source.end = after;
    add(source, answer.get(), most);
  }
  MessagePage page;
  std::string last = after;
  while (page.messages.size() < limit_) {
    Source* first = nullptr;
    for (Source& source : sources) {
      if (fill(source) && (first == nullptr || is_before(source, *first))) first = &source;
    }
    if (first == nullptr) return page;
    store::Entry& entry = first->entries[first->taken++];
    if (!is_list(state_)) last = store::place_of(entry);
    page.messages.push_back(info_of(std::move(entry), state_, first->partition));
    ++first->turn;
  }
  Place place{0, {}};
  bool all_read = true;
  for (const Source& source : sources) {
    const bool left = source.taken < source.entries.size();
    all_read = all_read && !left && !source.more;
    const std::size_t before = left ? source.entries[source.taken].offset : 0;
    place.after.push_back(left ? std::to_string(skipped(source.begin) + before) : source.end);
  }
  if (!is_list(state_)) place = {std::nullopt, {last}};
  if (!all_read) page.next = text_of(place);
  return page;
}

// Adds what was read after the end of the source.
void MessageList::add(Source& source, store::Page page, std::size_t most) const {
  const std::optional<std::string> next = place_after(page, source.end, most);
  source.begin = source.end;
  if (is_list(state_)) source.end = std::to_string(skipped(source.end) + page.ids_read);
  if (next) source.end = *next;
  source.more = next.has_value();
  source.entries = std::move(page.entries);
  source.taken = 0;
  source.scores.clear();
  if (is_list(state_)) return;
  for (const store::Entry& entry : source.entries) source.scores.push_back(number_of(entry.score));
}

// Reads further messages of the partition if all are taken. False: there are none.
bool MessageList::fill(Source& source) {
  while (source.taken == source.entries.size() && source.more) {
    add(source, read(source.partition, source.end, limit_), limit_);
  }
  return source.taken < source.entries.size();
}

// By score and id, the lower partition first if these are equal; in a list by turns.
bool MessageList::is_before(const Source& a, const Source& b) const {
  if (is_list(state_)) return a.turn < b.turn;
  const double score = a.scores[a.taken], other = b.scores[b.taken];
  if (score != other) return newest_ ? score > other : score < other;
  const int order = a.entries[a.taken].id.compare(b.entries[b.taken].id);
  return newest_ ? order > 0 : order < 0;
}

std::string MessagePage::next_after(std::uint64_t freed) const {
  if (next.empty() || !is_list_letter(next.front())) return next;
  std::string cursor = next.substr(0, next.find('.'));
  for (std::size_t at = cursor.size(); at < next.size();) {
    const std::size_t end = std::min(next.find('.', at + 1), next.size());
    const std::size_t place = number_in_hex(std::string_view(next).substr(at + 1, end - at - 1)).value_or(0);
    cursor += '.' + hex_of(place - std::min<std::uint64_t>(place, freed));
    at = end;
  }
  return cursor;
}

}  // namespace delayqueue
