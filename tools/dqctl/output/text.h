// Formats untrusted bytes for a terminal, times, durations and counts. Independent of the locale.
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

// One line that is safe on any terminal. Control characters, characters that change the direction of writing and bytes
// that are not UTF-8 are shown as \n, \x1b, \u202e ...
std::string printable(std::string_view bytes);

// The bytes as one shell word that is safe on any terminal: plain, in '...', or, if some bytes are escaped, in $'...'
// (bash, zsh, ksh). For texts on stderr and commands to paste.
std::string in_quotes(std::string_view bytes);

// Whether a shell script can use the name safely: one line of text that no program takes for an option.
bool is_plain_name(std::string_view name);

// A dqctl command to paste: "dqctl stats orders --watch 2s". Arguments that look like options stand after "--".
std::string command_text(const std::string& command, const std::vector<std::string_view>& arguments,
                         const std::string& options = "");

// An id in a table: printable, and cut if it is much longer than a UUID.
std::string id_text(std::string_view id);

// Makes JSON text safe on a terminal: unsafe characters from U+007F on become \u escapes, which mean the same. Bytes
// that are not UTF-8 become U+FFFD.
std::string json_escaped(std::string_view json);

// The word in `known` that a mistyped word most likely means: at most a third of the characters differ. Empty: none.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// How many columns a text takes on a terminal. The text must be printable().
std::size_t width_of(std::string_view text);

// Cuts a text to at most `width` columns. A cut text ends with an ellipsis.
std::string cut(std::string_view text, std::size_t width);

std::string base64(std::string_view bytes);

std::string hex(std::string_view bytes);

// The time between two points. In milliseconds, because scores of any size become the first or last Time, and their
// difference overflows the ticks of Time.
milliseconds span_between(Time from, Time to);

// How long ago something happened. 0 for a time in the future: clocks differ, and Redis' clock may have been set back.
milliseconds age_between(Time since, Time now);

// A duration in its two largest units: 250ms, 12s, 3m12s, 2h, 4d3h. Negative: -12s.
std::string span_text(milliseconds span);

// "3m12s ago", "in 2h", "now".
std::string ago_text(Time when, Time now);

// Like ago_text(), for past events: a time in the future is "now".
std::string since_text(Time when, Time now);

// 2026-11-21T19:36:45.123Z
std::string utc_text(Time when);

// 2026-11-21 19:36:45, in the time zone of this machine.
std::string local_text(Time when);

// 1,234,567
std::string count_text(std::uint64_t count);

// "1 message", "1,234 messages".
std::string counted(std::uint64_t count, const std::string& noun);

// The same with a verb: "1 message waits", "2 messages wait".
std::string counted(std::uint64_t count, const std::string& noun, const std::string& verb_of_one,
                    const std::string& verb_of_many);

// 17 B, 1.5 KiB, 3.0 MiB
std::string size_text(std::uint64_t bytes);

}  // namespace dqctl
