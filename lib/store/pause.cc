#include "store/pause.h"

#include "store/script_calls.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace delayqueue::store {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kLongest = 100LL * 365 * 24 * 3'600'000;  // ms; another program may have set any TTL
constexpr std::size_t kLongestWho = 256;
constexpr std::size_t kLongestReason = 1024;

PauseState as_pause(redis::Reply reply) {
  PauseState state;
  state.generation = std::max<std::int64_t>(-1, reply[0].integer());
  state.paused = reply[1].integer() == 1;
  state.wrong_type = reply[2].is_nil();
  if (!state.wrong_type) state.reason = reply[2].text();
  const std::int64_t left = reply[3].integer();
  if (left >= 0) state.left = milliseconds(std::min(left, kLongest));
  return state;
}

// "<generation> <who>"; another program may have written anything.
Pauser as_pauser(redis::Reply reply) {
  Pauser pauser;
  if (reply.is_nil()) return pauser;
  const std::string_view text = reply.text();
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, pauser.generation);
  if (error != std::errc() || rest == end || *rest != ' ') return {};
  pauser.who = std::string(rest + 1, end).substr(0, kLongestWho);
  return pauser;
}

Answer<PauseState> call(Pipeline& pipeline, const Keys& keys, const char* mode, const PauseState& state) {
  const std::int64_t left = state.left ? std::max<std::int64_t>(1, state.left->count()) : 0;
  calls::pause(pipeline, keys)
      .args(arg::mode(mode), arg::generation(state.generation), arg::is_paused(state.paused), arg::reason(state.reason),
            arg::left(left));
  return {pipeline, as_pause};
}

}  // namespace

std::string held_off_text(std::string_view reason) {
  return std::string(kHeldOff) + std::string(reason.empty() ? "by a handler" : reason.substr(0, kLongestReason));
}

Answer<PauseState> read_pause(Pipeline& pipeline, const Keys& keys) { return call(pipeline, keys, "read", {}); }

Answer<PauseState> set_pause(Pipeline& pipeline, const Keys& keys, const PauseState& wanted) {
  return call(pipeline, keys, "set", wanted);
}

Answer<PauseState> copy_pause(Pipeline& pipeline, const Keys& keys, const PauseState& state) {
  return call(pipeline, keys, "copy", state);
}

Answer<Pauser> read_pauser(Pipeline& pipeline, const Keys& keys) {
  pipeline.command("HGET").key(keys.settings).arg("paused_by");
  return {pipeline, as_pauser};
}

Answer<bool> write_pauser(Pipeline& pipeline, const Keys& keys, const Pauser& pauser) {
  pipeline.command("HSET").key(keys.settings).arg("paused_by");
  pipeline.arg(std::to_string(pauser.generation) + ' ' + pauser.who.substr(0, kLongestWho));
  return {pipeline, [](redis::Reply reply) { return reply.integer() >= 0; }};
}

}  // namespace delayqueue::store
