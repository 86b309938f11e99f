#include "redis/tls_socket.h"

#include "redis/escaped.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace delayqueue::redis {
namespace {

constexpr std::size_t kRecord = 16'384;         // most bytes in one TLS record
constexpr std::size_t kBuffer = kRecord + 512;  // the same with its header and padding

// The oldest complaint in this thread's queue: the one nearest to the cause.
std::string complaint() {
  const auto code = ERR_peek_error();
  if (ERR_GET_LIB(code) == ERR_LIB_SYS) return std::generic_category().message(ERR_GET_REASON(code));
  const char* text = ERR_reason_error_string(code);
  return text ? text : "no reason given";
}

void must(bool ok, const char* doing) {
  if (!ok) throw ConnectionError(std::string("TLS: cannot ") + doing + ": " + complaint());
}

void must_read(bool ok, const char* field, const std::string& path) {
  if (ok) return;
  throw std::invalid_argument(std::string(field) + ": cannot use '" + path + "': " + complaint());
}

bool is_ip(const std::string& name) {
  in6_addr buffer{};
  return inet_pton(AF_INET, name.c_str(), &buffer) == 1 || inet_pton(AF_INET6, name.c_str(), &buffer) == 1;
}

// OpenSSL takes an empty name for "check nothing" and one with a leading dot for "any name below".
std::string name_to_check(const Address& address, const TlsOptions& options) {
  std::string name = options.server_name.empty() ? address.host : options.server_name;
  if (name.size() > 1 && name.back() == '.') name.pop_back();  // certificates spell names without the root's dot
  const auto odd = [](unsigned char c) { return c <= ' ' || c == 0x7f; };
  if (name.empty() || name.front() == '.' || std::any_of(name.begin(), name.end(), odd)) {
    throw std::invalid_argument("tls.server_name: '" + escaped(name) +
                                "' is neither a host name nor an IP address; one is " +
                                "needed to check the certificate of " + address.text());
  }
  return name;
}

SSL_CTX* new_context() {
  ERR_clear_error();  // others in this thread may have left theirs
  return SSL_CTX_new(TLS_client_method());
}

struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};

// OpenSSL works on memory only; the link beneath does the sending, the waiting and the error texts.
class TlsLink final : public Transport {
 public:
  TlsLink(SSL_CTX* context, std::unique_ptr<Transport> link, const Address& address, const TlsOptions& options,
          const std::string& name);

  void shake_hands(Deadline deadline);

  void write(std::string_view bytes, Deadline deadline) override;
  std::size_t read(char* to, std::size_t size, Deadline deadline) override;
  int fd() const override { return link_->fd(); }
  bool readable(Deadline deadline) override;

 private:
  template <class Call>
  int run(Call call, Deadline deadline);
  void flush(Deadline deadline);
  void fill(Deadline deadline);
  void drain_final_error();
  std::string failure(int why) const;
  std::string bad_certificate(long verdict) const;
  std::string bad_session(int reason) const;

  const std::unique_ptr<Transport> link_;
  const std::string server_;
  const std::string name_;
  const TlsOptions options_;
  const std::unique_ptr<SSL, FreeSession> shared_connection_;
  BIO* in_ = nullptr;   // what came from the link; the session's
  BIO* out_ = nullptr;  // what is to go there; the session's
  std::array<char, kBuffer> buffer_;
};

TlsLink::TlsLink(SSL_CTX* context, std::unique_ptr<Transport> link, const Address& address, const TlsOptions& options,
                 const std::string& name)
    : link_(std::move(link)),
      server_(address.text()),
      name_(name),
      options_(options),
      shared_connection_(SSL_new(context)) {
  must(shared_connection_ != nullptr, "make a session");
  in_ = BIO_new(BIO_s_mem());
  out_ = BIO_new(BIO_s_mem());
  SSL_set_bio(shared_connection_.get(), in_, out_);
  must(in_ && out_, "make its buffers");
  if (is_ip(name_)) {
    must(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(shared_connection_.get()), name_.c_str()) == 1,
         "check the address");
    return;
  }
  SSL_set_hostflags(shared_connection_.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  must(SSL_set1_host(shared_connection_.get(), name_.c_str()) == 1, "check the host name");
  must(SSL_set_tlsext_host_name(shared_connection_.get(), name_.c_str()) == 1, "send the host name");
}

void TlsLink::shake_hands(Deadline deadline) {
  run([this] { return SSL_connect(shared_connection_.get()); }, deadline);
}

void TlsLink::write(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, kRecord);
    run([&] { return SSL_write(shared_connection_.get(), piece.data(), static_cast<int>(piece.size())); }, deadline);
    bytes.remove_prefix(piece.size());
  }
}

std::size_t TlsLink::read(char* to, std::size_t size, Deadline deadline) {
  const int most = static_cast<int>(std::min<std::size_t>(size, 1 << 30));
  return static_cast<std::size_t>(run([&] { return SSL_read(shared_connection_.get(), to, most); }, deadline));
}

// Bytes on the socket may be half a record or a session ticket; only OpenSSL can tell.
bool TlsLink::readable(Deadline deadline) {
  for (;;) {
    ERR_clear_error();
    char first = 0;
    const int got = SSL_peek(shared_connection_.get(), &first, 1);
    if (got > 0) return true;
    const int why = SSL_get_error(shared_connection_.get(), got);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) throw ConnectionError(failure(why));
    flush(deadline);
    if (!link_->readable(deadline)) return false;
    fill(deadline);
  }
}

// Repeats the call until it is done, moving bytes as it asks for them.
template <class Call>
int TlsLink::run(Call call, Deadline deadline) {
  for (;;) {
    ERR_clear_error();
    const int result = call();
    const int why = SSL_get_error(shared_connection_.get(), result);
    const bool unfinished = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
    if (result <= 0 && !unfinished) {
      const ConnectionError error(failure(why));
      try {
        flush(deadline);  // our alert: why we refuse the server
      } catch (const ConnectionError&) {
      }
      throw error;
    }
    flush(deadline);
    if (result > 0) return result;
    if (why == SSL_ERROR_WANT_READ) fill(deadline);
  }
}

void TlsLink::flush(Deadline deadline) {
  try {
    int size = 0;
    while ((size = BIO_read(out_, buffer_.data(), static_cast<int>(buffer_.size()))) > 0) {
      link_->write({buffer_.data(), static_cast<std::size_t>(size)}, deadline);
    }
  } catch (const ConnectionError&) {
    drain_final_error();
    throw;
  }
}

void TlsLink::fill(Deadline deadline) {
  try {
    const auto size = link_->read(buffer_.data(), buffer_.size(), deadline);
    must(BIO_write(in_, buffer_.data(), static_cast<int>(size)) == static_cast<int>(size), "buffer what came");
  } catch (const ConnectionError& e) {
    if (SSL_is_init_finished(shared_connection_.get())) throw;
    const std::string what = e.what();
    const bool hung_up = what.find("closed the connection") != std::string::npos;
    throw ConnectionError(what + " (during the TLS handshake; if this port is without TLS, use a redis:// URL" +
                          (hung_up ? "; a server that has reached its maxclients hangs up so, too)" : ")"));
  }
}

// A server that hangs up says why in an alert, which lies unread when a write fails: throws what it says.
void TlsLink::drain_final_error() {
  try {
    fill(Deadline{});
  } catch (const ConnectionError&) {
    return;
  }
  ERR_clear_error();
  char first = 0;
  const int got = SSL_peek(shared_connection_.get(), &first, 1);
  if (SSL_get_error(shared_connection_.get(), got) == SSL_ERROR_SSL) throw ConnectionError(failure(SSL_ERROR_SSL));
}

std::string TlsLink::failure(int why) const {
  if (why == SSL_ERROR_ZERO_RETURN) return "the server at " + server_ + " closed the connection";
  const long verdict = SSL_get_verify_result(shared_connection_.get());
  if (verdict != X509_V_OK) return bad_certificate(verdict);
  return bad_session(ERR_GET_REASON(ERR_peek_error()));
}

std::string TlsLink::bad_certificate(long verdict) const {
  const std::string whose = "the certificate of " + server_;
  const std::string reason = X509_verify_cert_error_string(verdict);
  switch (verdict) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return whose + " is not valid for " + escaped(name_) + ": " + reason +
             "; set tls.server_name if the name in the certificate differs";
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return whose + " is not valid today: " + reason + "; it must be renewed, or this machine's clock is wrong";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return whose + " is not signed by a trusted authority: " + reason + "; " +
             (options_.ca_file.empty() ? "set tls.ca_file to the authority's certificate"
                                       : "its authority is not in tls.ca_file '" + options_.ca_file + "'");
    default:
      return whose + " is refused: " + reason;
  }
}

std::string TlsLink::bad_session(int reason) const {
  const std::string whose = "the server at " + server_;
  const bool shown = !options_.cert_file.empty();
  const char* ask = "; set tls.cert_file and tls.key_file";
  switch (reason) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return whose + " asks for a client certificate: " + complaint() + ask;
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      if (shown) break;
      return whose + " refuses the TLS handshake: " + complaint() + "; if it asks for a client certificate" + ask;
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      if (!shown) break;
      return whose + " refuses the client certificate '" + options_.cert_file + "': " + complaint();
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      return whose + " does not answer in TLS: " + complaint() + "; use its TLS port, or a redis:// URL";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return whose + " does not speak TLS 1.2 or newer: " + complaint();
    default:
      break;
  }
  return "TLS with " + server_ + " failed: " + complaint();
}

}  // namespace

Tls::Tls(const Address& address, const TlsOptions& options)
    : address_(address), options_(options), name_(name_to_check(address, options)), context_(new_context()) {
  must(context_ != nullptr, "start OpenSSL");
  must(SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION) == 1, "ask for TLS 1.2");
  SSL_CTX_set_options(context_.get(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  trust_authorities();
  show_client_certificate();
}

void Tls::trust_authorities() {
  const auto& file = options_.ca_file;
  if (file.empty()) {
    must(SSL_CTX_set_default_verify_paths(context_.get()) == 1, "load the system's certificate authorities");
  } else {
    must_read(SSL_CTX_load_verify_locations(context_.get(), file.c_str(), nullptr) == 1, "tls.ca_file", file);
  }
}

void Tls::show_client_certificate() {
  const auto& cert = options_.cert_file;
  const auto& key = options_.key_file;
  if (cert.empty() && key.empty()) return;
  if (key.empty()) throw std::invalid_argument("tls.key_file: empty, but tls.cert_file is set; its key is needed");
  if (cert.empty()) throw std::invalid_argument("tls.cert_file: empty, but tls.key_file is set; set both or none");
  // Without this, OpenSSL asks the terminal for the password.
  bool locked = false;
  SSL_CTX_set_default_passwd_cb_userdata(context_.get(), &locked);
  SSL_CTX_set_default_passwd_cb(context_.get(), [](char*, int, int, void* asked) {
    *static_cast<bool*>(asked) = true;
    return -1;
  });
  must_read(SSL_CTX_use_certificate_chain_file(context_.get(), cert.c_str()) == 1, "tls.cert_file", cert);
  const bool loaded = SSL_CTX_use_PrivateKey_file(context_.get(), key.c_str(), SSL_FILETYPE_PEM) == 1;
  if (locked) throw std::invalid_argument("tls.key_file: '" + key + "' is locked by a password; it must be without");
  must_read(loaded, "tls.key_file", key);
  SSL_CTX_set_default_passwd_cb_userdata(context_.get(), nullptr);
}

std::unique_ptr<Transport> Tls::start(std::unique_ptr<Transport> link, Deadline deadline) {
  ERR_clear_error();
  auto session = std::make_unique<TlsLink>(context_.get(), std::move(link), address_, options_, name_);
  session->shake_hands(deadline);
  return session;
}

void Tls::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

}  // namespace delayqueue::redis
