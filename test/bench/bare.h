// The commands that this layout of keys needs at least (SET, HSET, ZADD; ZRANGEBYSCORE, LPUSH, ZREMRANGEBYRANK, RPOP,
// ZADD, MGET; ZREM, UNLINK, HDEL), bare: no script, no check, nothing that keeps a message from being lost. Requests
// and the answers to them are made before the clock runs, so all that is left is Redis and the way there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/wire.h"
#include "store/keys.h"

namespace bench {

// One write, and all that is answered.
struct Batch {
  std::string request;
  std::string answer;
};

enum class Bodies { set, mset };  // a SET each, or one MSET a batch

// The due time of the message of that number, in us since 1970: long ago; a later batch is due later. It could be the
// end of a lease as well.
std::int64_t bare_due_us(std::size_t number);

// `first`: the number of the first id.
std::vector<Batch> bare_sends(const delayqueue::store::Keys& keys, const std::vector<std::string>& ids, Bodies bodies,
                              std::size_t first = 0);

// Of the same ids, in the same order.
std::vector<Batch> bare_receives(const delayqueue::store::Keys& keys, const std::vector<std::string>& ids);

// Messages that others have in hand meanwhile. Without them each batch finds unack empty, and Redis keeps it as a short
// list that is searched from its start, which takes longer than all the rest.
std::vector<Batch> bare_residents(const delayqueue::store::Keys& keys);

// In seconds. Throws std::runtime_error if an answer is another than it should be.
double run(Wire& wire, const std::vector<Batch>& batches, std::size_t in_flight);

}  // namespace bench
