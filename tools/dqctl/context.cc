#include "context.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "output/text.h"
#include "own_file.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::HashTag;

constexpr const char* kDefaultUri = "redis://127.0.0.1:6379";
constexpr std::size_t kNamesShown = 10;
constexpr std::size_t kNameShown = 40;     // columns
constexpr std::size_t kObjectsKept = 100;  // of each kind
constexpr milliseconds kShortTimeout{250};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The part "user:password" of the URI; empty without one. It may be too long, but never too short: a password may hold
// an unescaped / or @.
std::string_view login_of(std::string_view uri) {
  const std::size_t scheme = uri.find("://");
  if (scheme == std::string_view::npos) return {};
  const std::string_view rest = uri.substr(scheme + 3);
  const std::size_t at = rest.rfind('@');
  if (at == std::string_view::npos || rest.front() == '/') return {};
  return rest.substr(0, at);
}

bool has_password(std::string_view uri) {
  const std::string_view login = login_of(uri);
  const std::size_t colon = login.find(':');
  return colon != std::string_view::npos && colon + 1 < login.size();
}

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kNamesShown; ++i) {
    text += (i == 0 ? "" : ", ") + cut(in_quotes(names[i]), kNameShown);
  }
  if (names.size() > kNamesShown) text += " and " + std::to_string(names.size() - kNamesShown) + " more";
  return text;
}

}  // namespace

void Context::set_output(const std::string& format) {
  const Format form = format == "json" ? Format::json : format == "ndjson" ? Format::ndjson : Format::table;
  output_ = Output(form, options.no_colour, options.utc);
}

void Context::resolve_options() {
  set_output(options.format);
  if (has_password(options.uri)) {
    throw Usage(
        "--uri: every user of this machine can read a password in an argument; put the URL into DELAYQUEUE_URI, "
        "or the password into DELAYQUEUE_PASSWORD or a --password-file");
  }
  uri_ = !options.uri.empty() ? options.uri : environment("DELAYQUEUE_URI");
  if (uri_.empty()) uri_ = kDefaultUri;
  client_options_.user = options.user;
  client_options_.password = options.password_file.empty() ? environment("DELAYQUEUE_PASSWORD")
                                                           : secret_in_file("--password-file", options.password_file);
  client_options_.client_name = "dqctl";
  client_options_.tls.ca_file = options.tls_ca;
  client_options_.tls.cert_file = options.tls_cert;
  client_options_.tls.key_file = options.tls_key;
  if (uri_.find("+sentinel://") != std::string::npos) {
    client_options_.sentinel.user = environment("DELAYQUEUE_SENTINEL_USER");
    client_options_.sentinel.password = environment("DELAYQUEUE_SENTINEL_PASSWORD");
  }
  const std::string audit = environment("DQCTL_AUDIT");
  if (!audit.empty() && audit != "0" && audit != "1")
    throw Usage("DQCTL_AUDIT: " + in_quotes(audit) + "; expected 1 or 0");
  audits_ = options.audit || audit == "1";
  if (options.connect_timeout) client_options_.connect_timeout = *options.connect_timeout;
  if (options.command_timeout) client_options_.command_timeout = *options.command_timeout;
  client_options_.keys.prefix = options.prefix;
  client_options_.keys.hash_tag = options.hash_tag == "on"    ? HashTag::on
                                  : options.hash_tag == "off" ? HashTag::off
                                                              : HashTag::automatic;
}

Context Context::for_another_thread() const {
  Context other;
  other.options = options;
  other.output_ = output_;
  other.uri_ = uri_;
  other.client_options_ = client_options_;
  return other;
}

const delayqueue::Client& Context::client() {
  if (!client_) client_.emplace(uri_, client_options_);
  return *client_;
}

delayqueue::Client Context::hasty_client(milliseconds longest) const {
  delayqueue::ClientOptions hasty = client_options_;
  hasty.connect_timeout = std::min(hasty.connect_timeout, longest);
  hasty.command_timeout = std::min(hasty.command_timeout, longest);
  return {uri_, hasty};
}

template <class Object>
Object& Context::object(Objects<Object>& objects, const Subject& subject) {
  const auto found =
      std::find_if(objects.begin(), objects.end(), [&](const auto& one) { return one.first == subject; });
  if (found != objects.end()) {
    objects.splice(objects.begin(), objects, found);
    return *objects.front().second;
  }
  const auto& [queue, partition, short_timeouts] = subject;
  if (short_timeouts && !hasty_client_) hasty_client_ = hasty_client(kShortTimeout);
  delayqueue::InspectorOptions wanted;
  wanted.partition = partition;
  objects.emplace_front(subject, std::make_unique<Object>(short_timeouts ? *hasty_client_ : client(),
                                                          delayqueue::QueueName::of_existing(queue), wanted));
  if (objects.size() > kObjectsKept) objects.pop_back();
  return *objects.front().second;
}

delayqueue::Inspector& Context::inspector(const std::string& queue, std::optional<unsigned> partition) {
  return object(inspectors_, {queue, partition, short_timeouts_});
}

delayqueue::QueueAdmin& Context::admin(const std::string& queue) {
  return object(admins_, {queue, options.partition, short_timeouts_});
}

delayqueue::Producer& Context::producer(const std::string& queue) {
  auto& producer = producers_[queue];
  if (producer == nullptr) {
    delayqueue::ProducerOptions sending;
    sending.send_timeout = std::max(sending.send_timeout, client_options_.command_timeout);  // which it would cut
    producer = std::make_unique<delayqueue::Producer>(client(), queue, sending);
  }
  return *producer;
}

void Context::note_change(const std::string& queue, std::optional<std::uint64_t> messages, std::uint64_t unconfirmed) {
  if (messages && *messages + unconfirmed == 0) return;
  changes_.push_back({queue, messages, unconfirmed});
}

std::string Context::shown_uri() const {
  const std::string_view login = login_of(uri_);
  if (login.empty()) return printable(uri_);
  // A user without a password may be a password: redis-cli reads redis://x@host that way.
  const auto begin = static_cast<std::size_t>(login.data() - uri_.data());
  const std::size_t user = has_password(uri_) ? login.find(':') + 1 : 0;
  return printable(uri_.substr(0, begin + user) + "***" + uri_.substr(begin + login.size()));
}

Counts Context::counts(const std::string& queue) {
  const Counts counts = inspector(queue).counts();
  if (counts.known) return counts;
  const std::vector<std::string> known = inspector(queue).queues();
  const std::string meant = nearest(queue, known);
  const std::string hint = meant.empty() ? "" : "did you mean " + in_quotes(meant) + "? ";
  throw Failure(Exit::not_found, "queue " + in_quotes(queue) + " is not at " + shown_uri() + " (prefix " +
                                     in_quotes(options.prefix) + "); " + hint +
                                     (known.empty() ? "no queue is" : "there are: " + names_text(known)));
}

}  // namespace dqctl
