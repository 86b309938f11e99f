// Bare pipelined commands: the least that this layout of keys needs for a message (SET, HSET, ZADD; ZRANGEBYSCORE,
// LPUSH, ZREMRANGEBYRANK, RPOP, ZADD, MGET; ZREM, UNLINK, HDEL). Nothing is checked. With Moves::commands a crash
// between two commands loses messages. Requests and expected answers are made before the measurement, which therefore
// measures Redis and the socket alone.
#pragma once

#include "bench/wire.h"
#include "store/keys.h"

namespace bench {

inline const std::string kBareQueue = "limit";  // as long as the name of the other queue, so keys are as long

// The bytes of one write, and the bytes of all its answers.
struct Batch {
  std::string request;
  std::string answer;
};

// Commands by themselves; or in a script for each move, which makes the move atomic, but checks nothing.
enum class Moves { commands, scripts };

enum class Bodies { set, mset };  // one SET for each message, or one MSET for a batch

// The due time of message `number` in us since 1970. It is long ago, and increases with the number. Also used as a
// lease end.
std::int64_t bare_due_us(std::size_t number);

// Batches of kBatch messages with the usual payload. `first`: the number of the first id.
std::vector<Batch> bare_sends(const delayqueue::store::Keys& keys, const std::vector<std::string>& ids, Bodies bodies,
                              std::size_t first = 0);

// The same with another payload and number of messages in a batch, with MSET.
std::vector<Batch> bare_sends_of(const delayqueue::store::Keys& keys, const std::vector<std::string>& ids,
                                 const std::string& body, std::size_t batch);

// For the same ids in the same order.
std::vector<Batch> bare_receives(const delayqueue::store::Keys& keys, const std::vector<std::string>& ids);

// The same for messages that are due when they are sent: they go to ready, not to pending, with MSET. The answers to
// the sends lack the last one, the length of ready, because it depends on the receives.
std::vector<Batch> bare_due_sends(const delayqueue::store::Keys& keys, const std::vector<std::string>& ids,
                                  Moves moves);
std::vector<Batch> bare_due_receives(const delayqueue::store::Keys& keys, const std::vector<std::string>& ids,
                                     Moves moves);

// For each id its delivery alone, in three batches: it is taken, without the way through ready; its body is fetched; it
// is settled.
std::vector<Batch> bare_deliveries(const delayqueue::store::Keys& keys, const std::vector<std::string>& ids);

// Adds messages that other consumers hold. Without them a batch finds `unack`, or the hash of counts, empty: then Redis
// makes it as a listpack and searches that from the start, which takes longer than everything else.
std::vector<Batch> bare_residents(const delayqueue::store::Keys& keys);

// Runs the batches and returns the seconds. Throws std::runtime_error if an answer differs from the expected one.
double run(Wire& wire, const std::vector<Batch>& batches, std::size_t in_flight);

// Runs the batches of bare_due_sends on one connection, and meanwhile those of bare_due_receives on another one, each
// as soon as its messages and those of the next kAhead batches are stored. Each connection has one batch in flight.
// Returns the seconds, and throws likewise.
//
// The library's job sends 1,000 messages in a call, and its consumer holds up to 1,000. With fewer of them in Redis its
// caches would be warmer, and each command would take less time.
inline constexpr std::size_t kAhead = 5;
double run_end_to_end(const std::string& socket, const std::vector<Batch>& sends, const std::vector<Batch>& receives);

}  // namespace bench
