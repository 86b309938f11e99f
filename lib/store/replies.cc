#include "store/replies.h"

#include "store/record.h"
#include "store/scripts.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <string_view>

namespace delayqueue::store {

using redis::Reply;

namespace {

constexpr std::size_t kPacedFields = 18;  // in an answer of take_paced

// Another program may have written any due time.
constexpr microseconds kLongestLate = std::chrono::hours(30 * 24);

// Removes and returns the first `length` characters and the space after them. The word itself may contain spaces.
std::string next_word(std::string_view& text, std::size_t length) {
  std::string word(text.substr(0, length));
  text.remove_prefix(std::min(length + 1, text.size()));
  return word;
}

std::string next_word(std::string_view& text) { return next_word(text, std::min(text.find(' '), text.size())); }

std::vector<std::string> split_ids(std::string_view text) {
  std::vector<std::string> ids;
  while (!text.empty()) ids.push_back(next_word(text, kIdLength));
  return ids;
}

// Drops the entries that are no ids: another program may have written any text into the lists.
std::vector<std::string> only_ids(std::string_view text) {
  std::vector<std::string> ids = split_ids(text);
  ids.erase(std::remove_if(ids.begin(), ids.end(), [](const std::string& id) { return !is_id(id); }), ids.end());
  return ids;
}

std::optional<microseconds> as_wait(Reply reply) {
  constexpr std::int64_t kLongestUs = 100LL * 365 * 86'400'000'000;  // longer than any wait of this library
  const std::int64_t us = reply.integer();
  return us < 0 ? std::nullopt : std::optional(microseconds(std::min(us, kLongestUs)));
}

Outcomes repeated(char outcome, std::uint64_t messages) {
  if (messages > kBatch) throw ReplyError("unexpected answer: outcomes of more messages than a call can have");
  return Outcomes(static_cast<std::size_t>(messages), outcome);
}

Outcomes as_outcomes(Reply reply, char success) {
  return reply.is_text() ? as_text(reply) : repeated(success, as_count(reply));
}

}  // namespace

std::string as_text(Reply reply) { return std::string(reply.text()); }

std::vector<std::string> as_texts(Reply reply) {
  std::vector<std::string> texts;
  texts.reserve(reply.size());
  for (std::size_t i = 0; i < reply.size(); ++i) texts.push_back(as_text(reply[i]));
  return texts;
}

std::vector<std::string> as_words(Reply reply) {
  std::vector<std::string> words;
  for (std::string_view text = reply.text(); !text.empty();) words.push_back(next_word(text));
  return words;
}

std::size_t as_count(Reply reply) { return static_cast<std::size_t>(std::max(0LL, reply.integer())); }

std::int64_t as_now(Reply reply) { return std::clamp<std::int64_t>(reply.integer(), 0, kLatestUs); }

bool as_done(Reply reply) { return reply.integer() == 1; }

std::optional<std::string> as_score(Reply reply) {
  return reply.size() > 1 ? std::optional(std::string(reply[1].text())) : std::nullopt;
}

bool as_set(Reply reply) { return !reply.is_nil(); }

std::vector<std::optional<std::string>> as_bodies(Reply reply) {
  std::vector<std::optional<std::string>> bodies;
  bodies.reserve(reply.size());
  for (std::size_t i = 0; i < reply.size(); ++i) {
    if (reply[i].is_nil()) {
      bodies.emplace_back();
    } else {
      bodies.emplace_back(reply[i].text());
    }
  }
  return bodies;
}

Outcomes as_sent(Reply reply) {
  if (!as_first(reply)) return as_outcomes(reply, '1');
  if (reply.is_text()) return std::string(reply.text().substr(0, reply.text().size() - 1));
  return repeated('1', 0 - static_cast<std::uint64_t>(reply.integer()));  // unsigned: the least integer has no negative
}

bool as_first(Reply reply) {
  return reply.is_text() ? !reply.text().empty() && reply.text().back() == 'N' : reply.integer() < 0;
}

KeyedSent as_sent_keyed(Reply reply) {
  std::string_view text = reply.text();
  KeyedSent sent{next_word(text), {}, false};
  sent.is_first = !sent.outcomes.empty() && sent.outcomes.back() == 'N';
  if (sent.is_first) sent.outcomes.pop_back();
  if (sent.outcomes.size() > kBatch)
    throw ReplyError("unexpected answer: outcomes of more messages than a call can have");
  sent.ids.resize(sent.outcomes.size());
  for (std::size_t i = 0; i < sent.ids.size(); ++i) {
    const char outcome = sent.outcomes[i];
    if (outcome != 'U' && outcome != 'R' && outcome != '?') continue;
    sent.ids[i] = next_word(text);
    if (!is_id(sent.ids[i])) throw ReplyError("unexpected answer: no id of the message that has a key");
  }
  return sent;
}

ByKey as_by_key(Reply reply) {
  std::string text = as_text(reply);
  if (text.empty() || text.front() != '?') return {std::move(text), {}};
  if (!is_id(text.substr(1))) throw ReplyError("unexpected answer: no id of the message that has a key");
  return {{}, text.substr(1)};
}

ByKey as_one_by_key(Reply reply) {
  std::string_view text = reply.text();
  std::string outcome = next_word(text);
  if (outcome.size() != 1) throw ReplyError("unexpected answer: not one outcome");
  if (outcome != "?") return {std::move(outcome), {}};
  std::string id = next_word(text);
  if (!is_id(id)) throw ReplyError("unexpected answer: no id of the message that has a key");
  return {{}, std::move(id)};
}

Outcomes as_first_word(Reply reply) {
  std::string_view text = reply.text();
  return next_word(text);
}

std::string as_entry_id(Reply reply) {
  if (reply.is_nil()) return {};
  std::string id(reply.text().substr(0, kIdLength));
  return is_id(id) ? id : std::string();
}

Outcomes as_settled(Reply reply) { return as_outcomes(reply, 'S'); }

Promoted as_promoted(Reply reply) {
  return {as_count(reply[0]), as_wait(reply[1]), only_ids(reply[2].text()), reply[3].integer() == 1};
}

Taken as_taken(Reply reply) {
  Taken taken;
  if (reply.size() == 1) {  // of ready2unack in a queue with limits
    taken.has_limits = true;
    return taken;
  }
  taken.popped = as_count(reply[0]);
  taken.lease_us = reply[1].integer();
  taken.now_us = as_now(reply[2]);
  for (std::string& id : split_ids(reply[3].text())) taken.messages.emplace_back(std::move(id), 1);
  for (std::string_view again = reply[4].text(); !again.empty();) {
    std::string id = next_word(again, kIdLength);
    taken.messages.emplace_back(std::move(id), std::max(1, deliveries_of(next_word(again))));
  }
  taken.from_retry = as_count(reply[5]);
  taken.retry_left = as_count(reply[6]);
  taken.possible_poison = as_words(reply[7]);
  taken.further_poison = as_count(reply[8]);
  taken.foreign = as_count(reply[9]);
  taken.foreign_id = as_text(reply[10]);
  taken.retries_left = number_at_start(reply[11].text());
  for (std::string_view others = reply[12].text(); !others.empty();) {
    std::string id = next_word(others, kIdLength);
    taken.other_retries_left[std::move(id)] = number_at_start(next_word(others));
  }
  const std::int64_t has = reply[13].integer();
  taken.has_headers = has % 2 != 0;
  taken.has_keys = has > 1;
  std::string_view timed = reply[14].text();
  taken.timed_id = next_word(timed, std::min(kIdLength, timed.size()));
  if (!timed.empty()) taken.late = std::min(microseconds(time_of_score(timed)), kLongestLate);
  if (reply.size() == kPacedFields) {
    taken.has_limits = reply[15].integer() == 1;
    taken.held_back = !reply[16].text().empty();
    taken.held_by_rate = reply[16].text() == "rate";
    taken.next = as_wait(reply[17]);
  }
  return taken;
}

PromotedAndTaken as_promoted_and_taken(Reply reply) {
  return {as_promoted(reply[0]), reply.size() > 1 ? std::optional(as_taken(reply[1])) : std::nullopt};
}

Renewed as_renewed(Reply reply) { return {as_now(reply[0]), as_text(reply[1])}; }

Reclaimed as_reclaimed(Reply reply) {
  return {as_count(reply[0]), as_wait(reply[1]), only_ids(reply[2].text()), only_ids(reply[3].text())};
}

Purged as_purged(Reply reply) { return {as_count(reply[0]), as_count(reply[1]), as_words(reply[2])}; }

PurgedIds as_purged_ids(Reply reply) { return {as_text(reply[0]), as_count(reply[1])}; }

namespace {

// A slot in ms; unset: there is none.
std::optional<std::int64_t> as_slot(Reply reply) {
  if (reply.text().empty()) return std::nullopt;
  return std::min(time_of_score(reply.text()), kLatestUs / 1000);
}

// The first letter of a word that the script answers.
char as_letter(Reply reply) {
  if (reply.text().empty()) throw ReplyError("unexpected answer: no outcome");
  return reply.text().front();
}

}  // namespace

ScheduleChanged as_schedule_changed(Reply reply) { return {as_letter(reply[0]), as_text(reply[1]), as_slot(reply[2])}; }

ReadSchedules as_read_schedules(Reply reply) {
  const bool knows_next = !reply[1].is_text() || !reply[1].text().empty();
  ReadSchedules read{as_now(reply[0]),
                     knows_next ? as_wait(reply[1]) : std::nullopt,
                     reply[2].integer() == 1,
                     reply[2].integer() == 2,
                     {}};
  for (std::size_t i = 3; i + 2 < reply.size(); i += 3) {
    read.schedules.push_back({as_text(reply[i]), as_slot(reply[i + 1]), as_text(reply[i + 2])});
  }
  return read;
}

Advanced as_advanced(Reply reply) { return {as_letter(reply[0]), as_count(reply[1]), reply[2].integer() == 1}; }

Begun as_begun(Reply reply) {
  const std::int64_t answer = reply.integer();
  return answer == 0 ? Begun::skip : answer == 2 ? Begun::wait : Begun::handle;
}

}  // namespace delayqueue::store
