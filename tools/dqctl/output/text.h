// Bytes of strangers, made fit for a terminal; times and spans, for people and for programs. No locale plays a part.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dqctl {

using Time = std::chrono::system_clock::time_point;
using std::chrono::milliseconds;

bool is_utf8(std::string_view bytes);

// Safe on any terminal, in one line: control characters (also those that turn the direction of writing) and bytes that
// are not UTF-8 are shown as \n, \x1b, \u202e ...
std::string printable(std::string_view bytes);

// A word of the shell that stands for these bytes, safe on any terminal: plain, in '...', or, where some are escaped, in
// $'...' (bash, zsh, ksh). For texts on stderr and commands to paste.
std::string in_quotes(std::string_view bytes);

// Whether a name may be given to a shell script: one line of text that is not taken for an option.
bool is_plain_name(std::string_view name);

// A command of dqctl to paste: "dqctl stats orders --watch 2s"; behind "--" what would be taken for options.
std::string command_text(const std::string& command, const std::vector<std::string_view>& arguments,
                         const std::string& options = "");

// An id in a table: printable, and cut where it is far longer than a UUID.
std::string id_text(std::string_view id);

// Of text inside JSON: what is not safe on a terminal, from U+007F on, as \u escapes, which stand for the same text; what
// is not UTF-8 as U+FFFD.
std::string json_escaped(std::string_view json);

// Of `known`, the word that is meant by a mistyped one: at most a third of its characters differ. Empty: none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// How many places a text takes on a terminal. For text from printable().
std::size_t width_of(std::string_view text);

// At most so many places; what was cut off leaves an ellipsis.
std::string cut(std::string_view text, std::size_t width);

std::string base64(std::string_view bytes);

std::string hex(std::string_view bytes);

// From one time to another. Scores of any size make times that are the first or last there is: their difference is more
// than a Time counts.
milliseconds span_between(Time from, Time to);

// How long ago something happened. 0 where it lies ahead: clocks differ, and Redis' clock may have been set back.
milliseconds age_between(Time since, Time now);

// The two largest units: 250ms, 12s, 3m12s, 2h, 4d3h. Negative: -12s.
std::string span_text(milliseconds span);

// "3m12s ago", "in 2h", "now".
std::string ago_text(Time when, Time now);

// Of what has happened: never "in 2h".
std::string since_text(Time when, Time now);

// 2026-11-21T19:36:45.123Z
std::string utc_text(Time when);

// 2026-11-21 19:36:45, in the time zone of this machine.
std::string local_text(Time when);

// 1,234,567
std::string count_text(std::uint64_t count);

// "1 message", "1,234 messages".
std::string counted(std::uint64_t count, const std::string& noun);

// With its verb: "1 message waits", "2 messages wait".
std::string counted(std::uint64_t count, const std::string& noun, const std::string& verb_of_one,
                    const std::string& verb_of_many);

// 17 B, 1.5 KiB, 3.0 MiB
std::string size_text(std::uint64_t bytes);

}  // namespace dqctl
