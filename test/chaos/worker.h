// The processes of a run. Each is this program again, with "key=value" arguments; see crew.cc.
#pragma once

#include "chaos/journal.h"

namespace chaos {

inline constexpr int kUncleanStop = 3;  // exit code: stop() was false

// Works until SIGTERM. Writes, of every delivery <n> of message <id>:
//   begin <id> <n> <token> <attempt> <held 0|1>
//   held <id> <n>                       now and then, while it takes long and the lease is held
//   lost <id> <n>                       message.lost() became true
//   verdict <id> <n> <what> <last us>   with the last time at which it was held (0: never)
// of every event acked, nacked, retried, gave_up with ids: "<event> <id>"; and "log <severity> <text>".
int work(const Arguments& arguments);

// Sends until SIGTERM. Writes, of every message:
//   sending <token> <due us> <retries> <kind>   before the first try
//   again <token>                       before every other
//   sent <token> <id> <created 0|1>     acknowledged
//   doubt <token> <id>                  no answer: tried again with this id
//   refused <token>                     Redis refused: tried again
//   cancelling|rescheduling <id> [due us], then canceled|rescheduled <id> <outcome>, or ..._doubt, ..._refused <id>
int produce(const Arguments& arguments);

// Works until SIGTERM, in Go: see go_worker.cc.
int work_in_go(const Arguments& arguments);

}  // namespace chaos
