// Readers of replies: each function converts a reply of Redis to a value, or to the result of a move. A reply may come
// from any server, and may hold what another program has stored: for any reply a function returns or throws ReplyError.
#pragma once

#include "redis/reply.h"
#include "store/results.h"
#include "store/schedules.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue::store {

// ---- Values ----

std::string as_text(redis::Reply reply);
std::vector<std::string> as_texts(redis::Reply reply);

// The words of a text, separated by single spaces.
std::vector<std::string> as_words(redis::Reply reply);

// 0 for a negative number.
std::size_t as_count(redis::Reply reply);

// The time of Redis in us, clamped to the times of messages, so that adding a duration cannot overflow.
std::int64_t as_now(redis::Reply reply);

// Whether a script returned 1: it did what it was called for.
bool as_done(redis::Reply reply);
std::optional<std::string> as_score(redis::Reply reply);  // of ZPOPMIN; nullopt: the zset is empty

// The reply to SET NX: nil means that the key existed.
bool as_set(redis::Reply reply);

// The reply to MGET or HMGET; unset: that value does not exist.
std::vector<std::optional<std::string>> as_bodies(redis::Reply reply);

// ---- Results of moves ----

// The outcomes of a send. A number n stands for n messages that were created. The reply to the first send to a queue is
// marked: a number is negative, and a string ends in N.
Outcomes as_sent(redis::Reply reply);
bool as_first(redis::Reply reply);
KeyedSent as_sent_keyed(redis::Reply reply);
ByKey as_by_key(redis::Reply reply);
ByKey as_one_by_key(redis::Reply reply);  // of a script that answers as send_keyed, for one message
Outcomes as_first_word(redis::Reply reply);
std::string as_entry_id(redis::Reply reply);  // of an entry of `unique`; empty: it has none

// The outcomes of ack.lua. A number n stands for n messages that were settled.
Outcomes as_settled(redis::Reply reply);

Promoted as_promoted(redis::Reply reply);
Taken as_taken(redis::Reply reply);
PromotedAndTaken as_promoted_and_taken(redis::Reply reply);
Renewed as_renewed(redis::Reply reply);
Reclaimed as_reclaimed(redis::Reply reply);
Purged as_purged(redis::Reply reply);
PurgedIds as_purged_ids(redis::Reply reply);

ScheduleChanged as_schedule_changed(redis::Reply reply);
ReadSchedules as_read_schedules(redis::Reply reply);
Advanced as_advanced(redis::Reply reply);
Begun as_begun(redis::Reply reply);

}  // namespace delayqueue::store
