// Parses and writes ids and messages as lines of JSON.
#pragma once

#include <delayqueue/inspector.h>
#include <delayqueue/producer.h>

#include <optional>
#include <string>
#include <string_view>

#include "line_reader.h"

namespace dqctl {

// Whether the text is a UUID in its form of 36 characters.
bool is_id(std::string_view text);

// Whether the text is a UUID in lower case, as the library stores it. No call finds a stored id of another form.
bool is_stored_id(std::string_view text);

// "keep", "replace" or "postpone"; unset: another text.
std::optional<delayqueue::OnConflict> conflict_in(std::string_view text);

// The id in a line: a plain id, or an object with one, as `ls -o ndjson` writes it. Throws BadLine.
std::string id_in(const std::string& line);

// Parses a message as `export` writes it. Throws BadLine.
delayqueue::MessageInfo message_in(const std::string& line);
std::string line_of(const delayqueue::MessageInfo& message);

// Parses a message to send: payload (a text, or any JSON value, whose bytes are sent as they stand in the line) or
// payload_base64; optional: id, delay or at, retries, ttl, headers, and for a unique key: key, on_conflict,
// while_in_flight, window, max_wait. Missing fields are taken from `options`. Throws BadLine.
delayqueue::OutgoingMessage draft_in(const std::string& line, const delayqueue::SendOptions& options);

}  // namespace dqctl
