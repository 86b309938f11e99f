#include "pages.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <utility>

#include "lines.h"
#include "output/table.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::MessageInfo;
using delayqueue::State;

constexpr std::size_t kStart = 64;                   // bytes of a payload to show
constexpr std::size_t kPayloadWithPage = 16 * 1024;  // bytes fetched with a page; a longer payload is fetched alone
constexpr std::size_t kPageBytes = 4U << 20U;        // of all payloads of a page, at most
constexpr std::size_t kSample = 5;

std::string text_of(const Filter& filter) {
  std::string text;
  if (filter.older_than) text += " older than " + span_text(*filter.older_than);
  if (filter.match) text += " matching " + in_quotes(*filter.match);
  if (filter.reason) text += " with reason " + in_quotes(*filter.reason);
  return text;
}

void show_sample(Output& out, const std::vector<MessageInfo>& sample, Time now) {
  Listing listing(out, {{"ID"}, {"WHEN"}, {"TRIED", true}, {"REASON"}, {"PAYLOAD"}}, "sample");
  for (const MessageInfo& message : sample) {
    listing.add({{id_text(message.id)},
                 {when_text(message, now)},
                 {std::to_string(message.deliveries)},
                 {cut(printable(message.reason), 40)},
                 {payload_text(message, kStart)}},
                {});
  }
  listing.end();
}

}  // namespace

bool is_list(State state) { return state == State::ready || state == State::retry; }

std::uint64_t count_of(const delayqueue::Counts& counts, State state) {
  return state == State::pending ? counts.pending
         : state == State::ready ? counts.ready
         : state == State::unack ? counts.unack
         : state == State::retry ? counts.retry
                                 : counts.dead;
}

Pages::Pages(delayqueue::Inspector& inspector, State state, Filter filter, const delayqueue::Counts& counts,
             Payload payload, Use use, std::size_t most)
    : inspector_(inspector),
      state_(state),
      use_(use),
      filter_(std::move(filter)),
      now_(counts.now),
      payload_(payload),
      total_(count_of(counts, state)) {
  place_.count = total_;
  const std::size_t bytes = payload == Payload::whole ? kPayloadWithPage : kStart;
  options_.payload = filter_.match ? std::max(bytes, Filter::kMatchedBytes) : bytes;
  options_.bodies = payload != Payload::none || filter_.match;
  options_.merge = false;  // a filter may end the walk through a partition early
  options_.limit = std::clamp<std::size_t>(kPageBytes / options_.payload, 1, std::min<std::size_t>(most, 1000));
}

void Pages::continue_at(PagesPlace place) {
  place_ = std::move(place);
  is_new_ = false;
  over_ = is_list(state_) && place_.examined >= place_.count;
}

bool Pages::next(std::vector<MessageInfo>& into) {
  into.clear();
  if (is_new_) find_last();
  is_new_ = false;
  ended_ = ended_ || (over_ && !begin_again());
  if (ended_ || interrupted()) return false;
  delayqueue::ListOptions options = options_;
  options.cursor = place_.cursor;
  if (is_list(state_)) options.limit = std::min<std::uint64_t>(options.limit, place_.count - place_.examined);
  delayqueue::MessagePage page = inspector_.list(state_, options);
  bool is_too_young = false;  // the rest of the partition, too
  for (MessageInfo& message : page.messages) {
    is_too_young = arrived_later(message) || filter_.ends(message, now_);
    if (is_too_young) break;
    ++examined_;
    ++place_.examined;
    if (!filter_.passes(message, now_)) continue;
    if (is_stored_id(message.id)) {
      into.push_back(std::move(message));
    } else {
      ++foreign_;
    }
  }
  place_.cursor = is_too_young ? page.next_partition : page.next;
  over_ = place_.cursor.empty() || arrive_too_fast();
  if (payload_ == Payload::whole) load_whole_payloads(into);
  return true;
}

// Whether the walk has read more than were there at its start. In a list it then reads those that arrived. In a zset
// messages may arrive in between: there it goes on, but not without end.
bool Pages::arrive_too_fast() {
  constexpr std::uint64_t kMostTimes = 20;
  if (is_list(state_)) return place_.examined >= place_.count;
  unfinished_ = examined_ > kMostTimes * total_ + options_.limit;
  return unfinished_;
}

void Pages::add_purged(const delayqueue::Purged& purged) {
  place_.removed += purged.messages;
  delayqueue::MessagePage page;
  page.next = place_.cursor;
  place_.cursor = page.next_after(purged.places);
}

std::optional<PagesPlace> Pages::place() {
  ended_ = ended_ || (over_ && !begin_again());
  return ended_ ? std::nullopt : std::optional(place_);
}

// Finds the time of the last message: those with a later time have arrived since then. In pending and unack a message
// may have moved there instead: a walk that only reads must not leave it out.
void Pages::find_last() {
  ended_ = total_ == 0;
  if (ended_ || is_list(state_) || (use_ == Use::read && state_ != State::dead)) return;
  delayqueue::ListOptions last;
  last.limit = 1;
  last.bodies = false;
  last.newest = true;
  const delayqueue::MessagePage page = inspector_.list(state_, last);
  if (!page.empty()) place_.until = page.messages.front().at;
}

bool Pages::arrived_later(const MessageInfo& message) const {
  return place_.until && message.at && *message.at > *place_.until;
}

// Begins another walk if this one may have missed messages: it removed some, or did not read as many as were there.
// Lists may hold ids without a message, so two walks in a row that removed none are enough.
bool Pages::begin_again() {
  constexpr std::uint64_t kMostQuiet = 2;
  constexpr int kMostWalks = 20;
  if (use_ == Use::read || !is_list(state_)) return false;
  const std::uint64_t quiet = place_.removed > 0 ? 0 : place_.quiet + 1;
  if (quiet == kMostQuiet || (quiet > 0 && place_.examined >= place_.count)) return false;
  unfinished_ = walks_ == kMostWalks;
  if (unfinished_) return false;
  const std::uint64_t count = count_of(inspector_.counts(), state_);
  if (count == 0) return false;
  ++walks_;
  foreign_ = 0;
  place_ = {};
  place_.count = count;
  place_.quiet = quiet;
  over_ = false;
  return true;
}

// Fetches the payloads that were cut in the page, one by one.
void Pages::load_whole_payloads(std::vector<MessageInfo>& messages) {
  for (MessageInfo& message : messages) {
    if (!message.size || message.payload.size() >= *message.size) continue;
    auto whole = inspector_.find(message.id);
    if (whole && whole->state == state_) {
      message = std::move(*whole);
    } else {
      message.id.clear();
    }
  }
  const auto gone = std::remove_if(messages.begin(), messages.end(), [](const MessageInfo& m) { return m.id.empty(); });
  messages.erase(gone, messages.end());
}

void add_payload_starts(delayqueue::Inspector& inspector, std::vector<MessageInfo>& messages) {
  std::vector<std::string> ids;
  for (const MessageInfo& message : messages) ids.push_back(message.id);
  auto found = inspector.find_all(ids, kStart);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (found[i] && found[i]->state == messages[i].state) messages[i] = std::move(*found[i]);
  }
}

void report_foreign_ids(Output& out, const std::string& queue, std::uint64_t foreign) {
  if (foreign == 0) return;
  out.stderr_line(count_text(foreign) + (foreign == 1 ? " id is no UUID, and is" : " ids are no UUIDs, and are") +
                  " left alone: " + command_text("doctor", {queue}) + " shows them");
}

void report_unfinished(Output& out, const Pages& pages) {
  if (!pages.unfinished()) return;
  out.stderr_line("messages arrive faster than they are read: gave up after " + count_text(pages.examined()) +
                  "; run it again");
}

std::string text_of(const PagesPlace& place) {
  std::string text = place.until ? std::to_string(place.until->time_since_epoch() / std::chrono::microseconds(1)) : "-";
  for (const std::uint64_t number : {place.count, place.examined, place.removed, place.quiet})
    text += '.' + std::to_string(number);
  return text + '.' + place.cursor;
}

std::optional<PagesPlace> place_in(std::string_view text) {
  const auto next = [&] {
    const std::string_view part = text.substr(0, std::min(text.find('.'), text.size()));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    return part;
  };
  const auto number = [&](std::string_view part, auto& into) {
    const char* const end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, into);
    return error == std::errc() && stop == end && into >= 0;
  };
  PagesPlace place;
  const std::string_view until = next();
  std::int64_t us = 0;
  constexpr std::int64_t kLatest = 7'258'118'400'000'000;  // 2200-01-01
  if (until != "-" && (!number(until, us) || us > kLatest)) return std::nullopt;
  if (until != "-") place.until = Time(std::chrono::duration_cast<Time::duration>(std::chrono::microseconds(us)));
  for (std::uint64_t* const one : {&place.count, &place.examined, &place.removed, &place.quiet}) {
    if (!number(next(), *one)) return std::nullopt;
  }
  place.cursor = text;
  return place;
}

Exit dry_run(Context& context, const std::string& verb, const std::string& queue, State state, const Filter& filter,
             const delayqueue::Counts& counts, bool foreign_too) {
  Output& out = context.out();
  Pages pages(context.inspector(queue), state, filter, counts, Pages::Payload::none);
  std::vector<MessageInfo> sample, some;
  std::uint64_t matching = 0;
  Progress progress(out, "examined");
  while (pages.next(some)) {
    matching += some.size();
    for (std::size_t i = 0; i < some.size() && sample.size() < kSample; ++i) sample.push_back(std::move(some[i]));
    progress.update(pages.examined(), pages.total());
    if (filter.any() || sample.size() < std::min<std::uint64_t>(kSample, pages.total())) continue;
    matching = pages.total();
    break;
  }
  progress.clear();
  if (foreign_too && matching < pages.total()) matching += pages.foreign();
  if (interrupted()) throw Failure(Exit::interrupted, "interrupted; nothing was done");
  add_payload_starts(context.inspector(queue), sample);
  if (out.is_table()) {
    show_sample(out, sample, counts.now);
  } else {
    std::vector<Object> objects;
    objects.reserve(sample.size());
    for (const MessageInfo& message : sample) objects.push_back(message_object(message, "payload_start"));
    Object object;
    object.add("queue", queue).add("state", delayqueue::to_string(state)).add("dry_run", true);
    object.add("matching", matching).add("of", pages.total()).add("sample", objects);
    out.object(object);
  }
  const std::string noun = std::string(delayqueue::to_string(state)) + " message";
  out.stderr_line("dry run: would " + verb + ' ' + count_text(matching) + " of " + counted(pages.total(), noun) +
                  " of " + in_quotes(queue) + text_of(filter) + (matching > 0 ? "; to do it, add --yes" : ""));
  if (!foreign_too) report_foreign_ids(out, queue, pages.foreign());
  if (const std::string advice = filter.advice(); matching == 0 && !advice.empty()) out.stderr_line(advice);
  return Exit::done;
}

}  // namespace dqctl
