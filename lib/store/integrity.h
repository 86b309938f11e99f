// Requests of the integrity check: scan the keys of a queue, classify its ids, repair them. Like Moves, each function
// adds one request to a pipeline.
//
// The verdict on an id is the first line of this table that fits. p, u, d, g: the id is in pending, unack, dead,
// garbage; c: it has a retry count; b: it has a body. Lists count only where a line names them: an id in a list is only
// a hint.
//
//        what is stored                   diagnosis                              repair
//   W    a body that is no string         a key of another program               none
//   G    g                                finished; gc deletes it, or takes it   gc
//                                         out of garbage if a zset has it
//   V    b, its name no UUID              a key of another program               none
//   S    p, u, d or c of no UUID          written by another program             removed from there
//   I    p or d at a time that is not     written by another program             p: the nearest of these times, so
//        from 1970 to 2199                                                       never early; d: now
//   L    u for more than 100 years, or    no consumer holds it: no lease and     leaves unack; if it has b and no
//        for a day without c and b        no backoff is so long                  other place: to ready, with a count
//   .    p+u or u+d, u whole seconds      a late Go worker took or nacked it:    none
//        and for less than an hour        heals when u ends
//   T    d+p, d+u without c               dead: dead letters have no count       stays in dead only
//   T    d+p, d+u with c                  alive                                  leaves dead; then as p+u
//   T    p+u                              in two places                          the later one stays, so not early
//   .    u                                held, or waits for the end of a        none: moves out of unack clean up
//                                         backoff. Without c: cancelled while
//                                         held, or a late nack of a Go worker.
//                                         Without b: expired
//   .    p b c                            pending                                none
//   N    p b                              would be dropped when taken            gets a count
//   B    p c, not due                     body lost: a TTL ends after due time   finished
//   E    p                                expired, or finished by a Go worker    finished
//   K    d c                              dead, with a count                     loses the count
//   .    d b                              dead                                   none
//   E    d                                dead, and its body expired first       finished
//   .    b c, in a list                   ready, or waits for another delivery   none
//   M    b c, in no list                  stranded                               to ready
//   E    c, in a list                     expired                                finished
//   C    c, in no list                    leftover of a message                  finished
//   O    b                                would be dropped, or stay for ever     to ready, with a count
//   A    attempts or reason               leftover of a message                  removed, with its headers
//   H    headers or a unique key          leftover of a message                  removed
//   .    none of these                    finished, or never sent                none
//
// Finished: everything that is left of the message is removed by way of garbage. Running consumers remove E, G, A and H
// without a repair. One script judges an id, so a message that moves is seen in exactly one place. The Go library sends
// in three steps (body, count, place), so O and M may be a send that is under way: a verdict is a finding only if it is
// the same twice, some time apart.
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

// The keys that hold ids. A scan of the bodies reads all keys of the server, and returns those of the queue's bodies.
enum class Collection { pending, unack, dead, count, garbage, attempts, reason, headers, keys, bodies };

struct Scanned {
  std::string cursor;                  // "0": the scan is complete
  std::vector<std::string> ids;        // for bodies: the keys of the bodies
  std::vector<std::string> damaged{};  // for headers: those of the ids whose headers cannot be read
};

// One step of a scan from a cursor, at first "0". An id that exists during the whole scan is returned at least once.
Answer<Scanned> scan(Pipeline& pipeline, const Keys& keys, Collection collection, const std::string& cursor);
inline constexpr std::size_t kScanned = 100;      // ids per step, approximately
inline constexpr std::size_t kScannedKeys = 500;  // keys of the server per step of a scan of the bodies

struct ScannedTotals {
  std::string cursor;  // "0": the scan is complete
  std::vector<std::pair<std::string, std::string>> fields;
};

// One step of a scan of the statistics: fields and their values.
Answer<ScannedTotals> scan_totals(Pipeline& pipeline, const Keys& keys, const std::string& cursor);

struct ScannedKeys {
  std::string cursor;                // "0": the scan is complete
  std::vector<std::string> damaged;  // unique keys whose entries have another form than clients write
};

// One step of a scan of the entries of unique keys.
Answer<ScannedKeys> scan_unique(Pipeline& pipeline, const Keys& keys, const std::string& cursor);

// The number of ids; for bodies the number of keys of the server.
Answer<std::size_t> size(Pipeline& pipeline, const Keys& keys, Collection collection);

// "none", "string", "list", "set", "zset", "hash", or the type of a module.
Answer<std::string> type(Pipeline& pipeline, const std::string& key);

Answer<std::size_t> list_length(Pipeline& pipeline, const std::string& list);
Answer<std::vector<std::string>> list_page(Pipeline& pipeline, const std::string& list, std::size_t from,
                                           std::size_t most);

// One word per id: its verdict, and which of p u d c b it has (see check.lua). At most kJudged ids.
inline constexpr std::size_t kJudged = 100;
Answer<std::vector<std::string>> classify(Pipeline& pipeline, const Keys& keys, const std::vector<std::string>& ids);

// An id with its first verdict, that of classify.
using Candidate = std::pair<std::string, char>;

// One word per candidate, as classify; '.' unless the verdict is still the same. At most kConfirmed candidates.
inline constexpr std::size_t kConfirmed = 50;
Answer<std::vector<std::string>> confirm(Pipeline& pipeline, const Keys& keys,
                                         const std::vector<Candidate>& candidates);

// As confirm; the script also repairs what it confirms. `retries` is the count of messages that have none.
Answer<std::vector<std::string>> repair(Pipeline& pipeline, const Keys& keys, const std::vector<Candidate>& candidates,
                                        int retries);

}  // namespace delayqueue::store
