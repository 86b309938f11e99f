// The pause of a queue. Partition 0 has it, and the other partitions have copies, since their scripts cannot read its
// keys. Each setting has a later generation than those before it: so a client can tell which partitions are behind, and
// a partition that was out of reach, or is new, does not open a paused queue.
#pragma once

#include "redis/pipeline.h"
#include "store/keys.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace delayqueue::store {

using redis::Answer;
using redis::Pipeline;

// The beginning of the reason of a pause by a handler: see release_and_pause in moves.h. Only its partition is paused,
// because the script that releases the message cannot reach the others. Such a pause has no generation.
constexpr std::string_view kHeldOff = "held off: ";
std::string held_off_text(std::string_view reason);
inline bool is_held_off(std::string_view reason) { return reason.substr(0, kHeldOff.size()) == kHeldOff; }

struct PauseState {
  std::int64_t generation = -1;  // of the last setting; -1: there was none, or by a program that knows no generations
  bool paused = false;
  std::string reason{};
  std::optional<std::chrono::milliseconds> left{};  // until the pause ends; unset: it does not end
  bool wrong_type = false;                          // another program has written the key: the partition is paused

  // Whether a handler, or a program that knows no generations, has paused this partition: then the others are not
  // paused. The generation of a pause is odd, that of its end even; that of one that has run out is still odd when a
  // handler pauses.
  bool is_local() const { return paused && (generation % 2 != 1 || is_held_off(reason)); }
};

// Who has set the pause of the queue, for people: a field of `settings` in partition 0. It is written after the pause
// and names its generation, so programs that do not know it can set and end pauses.
struct Pauser {
  std::int64_t generation = -1;  // of the pause; -1: none is stored
  std::string who{};             // at most 256 bytes
};
Answer<Pauser> read_pauser(Pipeline& pipeline, const Keys& keys);
Answer<bool> write_pauser(Pipeline& pipeline, const Keys& keys, const Pauser& pauser);

// keys: of the partition. All return its state after the call.
Answer<PauseState> read_pause(Pipeline& pipeline, const Keys& keys);
// Sets the state in a new generation, which is later than wanted.generation.
Answer<PauseState> set_pause(Pipeline& pipeline, const Keys& keys, const PauseState& wanted);
// Sets this state, unless the partition has one of this generation or a later one.
Answer<PauseState> copy_pause(Pipeline& pipeline, const Keys& keys, const PauseState& state);

}  // namespace delayqueue::store
