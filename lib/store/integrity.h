// What a check of a queue asks for: walks over all its ids, a judgement of each, and its repair. Like Store: each adds
// one request to a pipeline.
//
// The first line that fits an id is its verdict. p, u, d, g: it is in pending, unack, dead, garbage; c: it has retries
// recorded; b: it has a body. Lists count only where they are named: an id in a list is a hint.
//
//        what is stored                   so it is                              repair
//   W    a body that is no string         somebody else's key                   none
//   G    g                                finished; gc's, or leaves garbage     gc
//   V    b, its name no UUID              somebody else's key                   none
//   S    p, u, d or c of no UUID          a stranger                            removed from there
//   I    p or d at no time from 1970 to    another program wrote it            p: the nearest of these times, so
//        2199                                                                    never early; d: now
//   L    u for more than 100 years, or    no consumer's: no lease and no        leaves unack; if it has b and no other
//        with neither c nor b for a day   backoff is as long                    place: to ready, with a count
//   .    p+u or u+d, u whole seconds      taken or nacked by a Go worker that
//        and for less than an hour        was late: heals when u ends
//   T    d+p, d+u without c               dead: what has no count was given up  stays in dead only
//   T    d+p, d+u with c                  alive                                 leaves dead; then as p+u
//   T    p+u                              in two places                         the later stays: never early, one holder
//   .    u                                held, or waits out a backoff; without c cancelled while held, or a late nack of
//                                         a Go worker; without b expired: every way out of unack tidies up
//   .    p b c                            pending
//   N    p b                              would be dropped when taken           gets a count
//   B    p c, not due                     lost its body: no TTL ends so early   finished
//   E    p                                expired, or ended by a Go worker      finished
//   K    d c                              dead, and counted                     loses the count
//   .    d b                              dead
//   E    d                                dead, and its body expired first      finished
//   .    b c, in a list                   ready, or waits for another try
//   M    b c, in no list                  stranded                              to ready
//   E    c, in a list                     expired                               finished
//   C    c, in no list                    left over of a message                finished
//   O    b                                would be dropped, or lies forever     to ready, with a count
//   A    attempts or reason               left over of a message                dropped
//   .    none of these                    finished, or unheard-of
//
// Finished: all is removed by way of garbage. E, G and A are what running consumers remove by themselves. What moves is
// seen in one place at any moment: a judgement is one script. The Go library sends in three steps (body, count, place),
// so that O and M may be a send under way: only what is found twice, some time apart, is a finding.
#pragma once

#include "redis/pipeline.h"
#include "store/keys.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue::store {

using redis::Answer;
using redis::Pipeline;

// Where ids are found. A walk over bodies sees the keys of the whole server, those of the queue's bodies it returns.
enum class Where { pending, unack, dead, count, garbage, attempts, reason, bodies };

struct Scanned {
  std::string cursor;            // "0": the walk is over
  std::vector<std::string> ids;  // of bodies: their keys
};

// A step of a walk from a cursor, "0" at first. What is there all the time is returned, perhaps twice.
Answer<Scanned> scan(Pipeline& pipeline, const Keys& keys, Where where, const std::string& cursor);
inline constexpr std::size_t kScanned = 100;      // ids a step, about
inline constexpr std::size_t kScannedKeys = 500;  // keys of the server a step over bodies

struct ScannedTotals {
  std::string cursor;  // "0": the walk is over
  std::vector<std::pair<std::string, std::string>> fields;
};

// A step of a walk over the statistics: fields and their values.
Answer<ScannedTotals> scan_totals(Pipeline& pipeline, const Keys& keys, const std::string& cursor);

// How many there are; of bodies: keys of the server.
Answer<std::size_t> size(Pipeline& pipeline, const Keys& keys, Where where);

// "none", "string", "list", "set", "zset", "hash" or a module's.
Answer<std::string> type(Pipeline& pipeline, const std::string& key);

Answer<std::size_t> list_length(Pipeline& pipeline, const std::string& list);
Answer<std::vector<std::string>> list_page(Pipeline& pipeline, const std::string& list, std::size_t from,
                                           std::size_t most);

// The verdict on each id, and which of p u d c b it has: see check.lua. At most kJudged ids.
inline constexpr std::size_t kJudged = 100;
Answer<std::vector<std::string>> look(Pipeline& pipeline, const Keys& keys, const std::vector<std::string>& ids);

// '.', unless the verdict on an id is still the one given with it. At most kConfirmed ids.
using Suspect = std::pair<std::string, char>;
inline constexpr std::size_t kConfirmed = 50;
Answer<std::vector<std::string>> confirm(Pipeline& pipeline, const Keys& keys, const std::vector<Suspect>& suspects);

// As confirm, and mends it in the same step.
Answer<std::vector<std::string>> repair(Pipeline& pipeline, const Keys& keys, const std::vector<Suspect>& suspects,
                                        int retries);

}  // namespace delayqueue::store
