#include "queue/endpoint.h"

#include "embedded/folder_servers.h"
#include "embedded/private_folder.h"
#include "queue/option_checks.h"
#include "redis/escaped.h"
#include "redis/pipeline.h"

#include <delayqueue/error.h>
#include <delayqueue/version.h>

#include <sys/un.h>

#include <stdexcept>

namespace delayqueue {
namespace {

using redis::Connection;
using redis::Topology;
using redis::Url;

// The server of an embedded: URL. The first connection to a server that does not run starts it.
class EmbeddedServer : public Topology {
 public:
  EmbeddedServer(Url url, ConnectionOptions options) : url_(std::move(url)), options_(std::move(options)) {
    // Resolved now, because the program may change its working directory later.
    if (!url_.folder.empty()) folder_ = absolute_folder(url_.folder);
  }

  std::unique_ptr<Connection> connect() override { return dial(servers().front()); }

  std::vector<redis::Address> servers() override {
    redis::Address address;
    address.path = embedded_socket(folder_);
    address.own_user = true;
    return {address};
  }

  std::unique_ptr<Connection> dial(const redis::Address& server) override {
    return std::make_unique<Connection>(server, redis::login_of(url_, options_), options_);
  }

 private:
  const Url url_;
  const ConnectionOptions options_;
  std::string folder_;
};

std::unique_ptr<Topology> make_topology(const Url& url, const ConnectionOptions& options, const store::Keys& keys) {
  switch (url.kind) {
    case Url::Kind::embedded:
      return std::make_unique<EmbeddedServer>(url, options);
    case Url::Kind::sentinel:
      return redis::sentinels(url, options);
    case Url::Kind::cluster:
      return redis::cluster(url, options, keys.pending);
    case Url::Kind::server:
      break;
  }
  return redis::single_server(url, options);
}

store::Keys keys_of(const std::string& queue, const QueueOptions& options, bool hash_tag) {
  return store::make_keys(queue, {options.prefix, hash_tag, options.go.bodies_under_dp});
}

bool wants_hash_tag(const QueueOptions& options, const Url& url) {
  return options.hash_tag == HashTag::on || (options.hash_tag == HashTag::automatic && url.kind == Url::Kind::cluster);
}

[[noreturn]] void reject_unused(const std::string& field, const Url& url, const std::string& why) {
  throw std::invalid_argument(field + ": set, but " + url.text() + ' ' + why);
}

void check_sentinel(const Url& url, const SentinelOptions& sentinel) {
  const bool fits = url.kind == Url::Kind::sentinel;
  const std::string why = "uses no Sentinels; expected redis+sentinel:// or rediss+sentinel://";
  if (!fits && !sentinel.user.empty()) reject_unused("connection.sentinel.user", url, why);
  if (!fits && !sentinel.password.empty()) reject_unused("connection.sentinel.password", url, why);
  if (!fits && sentinel.encrypted) reject_unused("connection.sentinel.encrypted", url, why);
  if (!fits && sentinel.tls) reject_unused("connection.sentinel.tls", url, why);
  if (sentinel.tls && !sentinel.encrypted.value_or(url.addresses.front().tls)) {
    reject_unused("connection.sentinel.tls", url,
                  "has Sentinels without encryption; expected rediss+sentinel:// or sentinel.encrypted");
  }
}

// A connection to a Sentinel that is not encrypted may lead to an attacker. The server that this Sentinel names
// receives the password if its certificate is valid.
std::string risk_of_forged_sentinels(const Url& url, const ConnectionOptions& options) {
  const bool plain =
      url.kind == Url::Kind::sentinel && url.addresses.front().tls && !options.sentinel.encrypted.value_or(true);
  const bool pinned = !options.tls.ca_file.empty() || !options.tls.server_name.empty();
  if (!plain || pinned) return {};
  return "the connections to the Sentinels of " + url.text() +
         " are not encrypted: a forged Sentinel can name any server with a valid certificate, and that server receives "
         "the password; set connection.tls.ca_file or connection.tls.server_name, or encrypt the connections to the "
         "Sentinels";
}

// Whether EXISTS returned true. A user without permission for the key cannot have created the queue, so false.
bool exists(const redis::Pipeline& pipeline, std::size_t request) {
  try {
    return pipeline.reply(request).integer() != 0;
  } catch (const AccessDenied&) {
    return false;
  }
}

// Parses the URL and checks the options, before the constructor creates anything from them.
Url validated(const std::string& url, const std::string& queue, const ConnectionOptions& connection,
              const QueueOptions& options) {
  validate(queue, connection, options);
  Url parsed = redis::parse_url(url);
  const bool tls = !parsed.addresses.empty() && parsed.addresses.front().tls;
  const TlsOptions& wanted = connection.tls;
  if (!tls && !(wanted.ca_file + wanted.cert_file + wanted.key_file + wanted.server_name).empty()) {
    reject_unused("connection.tls", parsed, "is not encrypted; expected rediss://");
  }
  check_sentinel(parsed, connection.sentinel);
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  for (const redis::Address& address : parsed.addresses) {
    if (!address.host.empty() || address.path.size() <= kLongest) continue;
    throw std::invalid_argument("url: " + parsed.text() + ": the path of a unix socket has at most " +
                                std::to_string(kLongest) + " bytes, this one " + std::to_string(address.path.size()));
  }
  const std::string risk = risk_of_forged_sentinels(parsed, connection);
  if (connection.sentinel.refuse_unpinned && !risk.empty()) {
    throw std::invalid_argument("connection.sentinel.refuse_unpinned: set, but " + risk);
  }
  if (parsed.kind == Url::Kind::cluster) {
    if (options.hash_tag == HashTag::off) {
      throw std::invalid_argument(
          "queue.hash_tag: off, but a Cluster needs all keys of a queue in one slot; leave it automatic");
    }
    QueueOptions tagged = options;
    tagged.hash_tag = HashTag::on;
    validate(queue, connection, tagged);
  }
  return parsed;
}

}  // namespace

Endpoint::Endpoint(const std::string& url, const std::string& queue, const ConnectionOptions& connection,
                   const QueueOptions& options, RegisterQueue registers)
    : Endpoint(validated(url, queue, connection, options), queue, connection, options, registers) {}

Endpoint::Endpoint(const Url& url, const std::string& queue, const ConnectionOptions& connection,
                   const QueueOptions& options, RegisterQueue registers)
    : prefix_(options.prefix),
      where_(url.text()),
      warning_(risk_of_forged_sentinels(url, connection)),
      keys_(keys_of(queue, options, wants_hash_tag(options, url))),
      other_keys_(keys_of(queue, options, !wants_hash_tag(options, url))),
      registers_(registers),
      check_hash_tag_conflict_(url.kind != Url::Kind::cluster),
      topology_(make_topology(url, connection, keys_)) {}

std::unique_ptr<Connection> Endpoint::connect() {
  std::unique_ptr<Connection> connection = topology_->connect();
  const std::lock_guard lock(mutex_);
  verify(*connection);
  return connection;
}

// The format is checked at each connection: a newer version may have changed it meanwhile. The rest is checked once.
void Endpoint::verify(Connection& connection) {
  redis::Pipeline pipeline(connection);
  pipeline.command("HMGET").key(keys_.settings).arg("format");
  const auto add_exists = [&](const store::Keys& keys) {
    for (const std::string* key : {&keys.pending, &keys.ready, &keys.unack, &keys.retry, &keys.dead}) {
      pipeline.command("EXISTS").key(*key);
    }
  };
  if (check_hash_tag_conflict_ && !verified_) add_exists(other_keys_);
  const std::size_t other_requests = pipeline.size();
  if (registers_ == RegisterQueue::if_exists && !verified_) add_exists(keys_);
  const std::size_t all_requests = pipeline.size();
  pipeline.run();
  check_format(pipeline);
  if (verified_) return;
  for (std::size_t i = 1; i < other_requests; ++i) {
    if (!exists(pipeline, i)) continue;
    throw std::invalid_argument("queue.hash_tag: this queue would be " + keys_.base + ", but " + other_keys_.base +
                                " exists at " + where_ + "; set the same hash_tag in all programs that use the queue");
  }
  bool there = registers_ == RegisterQueue::yes;
  for (std::size_t i = other_requests; i < all_requests; ++i) there = exists(pipeline, i) || there;
  if (there) register_queue(connection);
  verified_ = true;
}

// A queue without the field has format 1: those of the Go library, and all of earlier versions. A user without
// permission for the field uses the queue unchecked, as before there was a field.
void Endpoint::check_format(const redis::Pipeline& pipeline) const {
  try {
    const redis::Reply format = pipeline.reply(0)[0];
    if (format.is_nil() || format.text() == "1") return;
    throw ReplyError("the queue " + keys_.base + " at " + where_ + " is stored in format \"" +
                     redis::escaped(format.text().substr(0, 20)) + "\", and version " + version() +
                     " of this library reads format 1; use a version that reads it (" + keys_.settings +
                     " has the format)");
  } catch (const AccessDenied&) {
  }
}

// The set of known queues is for Inspector::queues. In a Cluster another node may hold it. An error is ignored, unless
// the connection broke.
void Endpoint::register_queue(Connection& connection) {
  redis::Pipeline pipeline(connection);
  pipeline.command("SADD").key(keys_.queues).arg(keys_.base);
  try {
    pipeline.run();
  } catch (const Error&) {
    if (connection.is_stale()) throw;
  }
}

}  // namespace delayqueue
