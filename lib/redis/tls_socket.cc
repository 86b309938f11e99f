#include "redis/tls_socket.h"

#include "os/resources.h"
#include "redis/escaped.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace delayqueue::redis {
namespace {

constexpr std::size_t kRecord = 16'384;         // most bytes in one TLS record
constexpr std::size_t kBuffer = kRecord + 512;  // a record with its header and padding

// The oldest error in this thread's OpenSSL queue, which is the one nearest to the cause.
std::string openssl_error() {
  const auto code = ERR_peek_error();
  if (ERR_GET_LIB(code) == ERR_LIB_SYS) return reason(ERR_GET_REASON(code));
  const char* text = ERR_reason_error_string(code);
  return text ? text : "no reason given";
}

void check(bool ok, const char* doing) {
  if (!ok) throw ConnectionError(std::string("TLS: cannot ") + doing + ": " + openssl_error());
}

void check_file(bool ok, const char* field, const std::string& path) {
  if (ok) return;
  throw std::invalid_argument(std::string(field) + ": cannot use '" + path + "': " + openssl_error());
}

bool is_ip(const std::string& name) {
  in6_addr buffer{};
  return inet_pton(AF_INET, name.c_str(), &buffer) == 1 || inet_pton(AF_INET6, name.c_str(), &buffer) == 1;
}

// The name that the certificate must be valid for. Refuses an empty name, for which OpenSSL would check nothing, and a
// leading dot, for which it would accept any subdomain.
std::string name_to_check(const Address& address, const TlsOptions& options) {
  std::string name = options.server_name.empty() ? address.host : options.server_name;
  if (name.size() > 1 && name.back() == '.') name.pop_back();  // names in certificates have no trailing dot
  const auto odd = [](unsigned char c) { return c <= ' ' || c == 0x7f; };
  if (name.empty() || name.front() == '.' || std::any_of(name.begin(), name.end(), odd)) {
    throw std::invalid_argument("tls.server_name: '" + escaped(name) +
                                "' is neither a host name nor an IP address; one is " +
                                "needed to check the certificate of " + address.text());
  }
  return name;
}

SSL_CTX* new_context() {
  ERR_clear_error();  // other code in this thread may have left errors in the queue
  return SSL_CTX_new(TLS_client_method());
}

struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};

// A transport that encrypts another one. OpenSSL reads and writes memory buffers only; the transport below sends, waits
// and makes the error texts.
class TlsTransport final : public Transport {
 public:
  TlsTransport(SSL_CTX* context, std::unique_ptr<Transport> link, const Address& address, const TlsOptions& options,
               const std::string& name);

  void handshake(Deadline deadline);

  void write(const std::vector<std::string_view>& pieces, Patience& patience) override;
  std::size_t read(char* to, std::size_t size, Patience& patience) override;
  int fd() const override { return link_->fd(); }
  bool readable(Deadline deadline) override;
  void reset_at_close() override { link_->reset_at_close(); }

 private:
  template <class Call>
  int run(Call call, Patience& patience);
  void flush(Patience& patience);
  void fill(Patience& patience);
  void drain_final_error();
  std::string failure(int why) const;
  std::string bad_certificate(long verdict) const;
  std::string bad_session(int reason) const;

  const std::unique_ptr<Transport> link_;
  const std::string server_;
  const std::string name_;
  const TlsOptions options_;
  const std::unique_ptr<SSL, FreeSession> session_;
  BIO* in_ = nullptr;   // bytes received; owned by the session
  BIO* out_ = nullptr;  // bytes to send; owned by the session
  std::array<char, kBuffer> buffer_;
};

TlsTransport::TlsTransport(SSL_CTX* context, std::unique_ptr<Transport> link, const Address& address,
                           const TlsOptions& options, const std::string& name)
    : link_(std::move(link)), server_(address.text()), name_(name), options_(options), session_(SSL_new(context)) {
  check(session_ != nullptr, "make a session");
  in_ = BIO_new(BIO_s_mem());
  out_ = BIO_new(BIO_s_mem());
  SSL_set_bio(session_.get(), in_, out_);
  check(in_ && out_, "make its buffers");
  if (is_ip(name_)) {
    check(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session_.get()), name_.c_str()) == 1, "check the address");
    return;
  }
  SSL_set_hostflags(session_.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  check(SSL_set1_host(session_.get(), name_.c_str()) == 1, "check the host name");
  check(SSL_set_tlsext_host_name(session_.get(), name_.c_str()) == 1, "send the host name");
}

void TlsTransport::handshake(Deadline deadline) {
  Patience patience(deadline);
  run([this] { return SSL_connect(session_.get()); }, patience);
}

// Joins the pieces: each write makes records, and small ones cost as much as large ones.
void TlsTransport::write(const std::vector<std::string_view>& pieces, Patience& patience) {
  std::string joined;
  if (pieces.size() > 1) {
    std::size_t size = 0;
    for (const std::string_view piece : pieces) size += piece.size();
    joined.reserve(size);
    for (const std::string_view piece : pieces) joined.append(piece);
  }
  for (std::string_view rest = pieces.size() == 1 ? pieces.front() : joined; !rest.empty();) {
    const auto record = rest.substr(0, kRecord);
    run([&] { return SSL_write(session_.get(), record.data(), static_cast<int>(record.size())); }, patience);
    rest.remove_prefix(record.size());
  }
}

std::size_t TlsTransport::read(char* to, std::size_t size, Patience& patience) {
  const int most = static_cast<int>(std::min<std::size_t>(size, 1 << 30));
  return static_cast<std::size_t>(run([&] { return SSL_read(session_.get(), to, most); }, patience));
}

// Asks OpenSSL, because bytes on the socket may be half a record or a session ticket.
bool TlsTransport::readable(Deadline deadline) {
  for (;;) {
    ERR_clear_error();
    char first = 0;
    const int got = SSL_peek(session_.get(), &first, 1);
    if (got > 0) return true;
    const int why = SSL_get_error(session_.get(), got);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) throw ConnectionError(failure(why));
    Patience patience(deadline);
    flush(patience);
    if (!link_->readable(deadline)) return false;
    fill(patience);
  }
}

// Repeats an OpenSSL call until it is complete; sends and receives bytes in between.
template <class Call>
int TlsTransport::run(Call call, Patience& patience) {
  for (;;) {
    ERR_clear_error();
    const int result = call();
    const int why = SSL_get_error(session_.get(), result);
    const bool unfinished = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
    if (result <= 0 && !unfinished) {
      const ConnectionError error(failure(why));
      try {
        flush(patience);  // sends the alert with the reason for which we refuse the server
      } catch (const ConnectionError&) {
      }
      throw error;
    }
    flush(patience);
    if (result > 0) return result;
    if (why == SSL_ERROR_WANT_READ) fill(patience);
  }
}

void TlsTransport::flush(Patience& patience) {
  try {
    int size = 0;
    while ((size = BIO_read(out_, buffer_.data(), static_cast<int>(buffer_.size()))) > 0) {
      const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(size));
      link_->write(std::vector<std::string_view>{bytes}, patience);
    }
  } catch (const ConnectionError&) {
    drain_final_error();
    throw;
  }
}

void TlsTransport::fill(Patience& patience) {
  try {
    const auto size = link_->read(buffer_.data(), buffer_.size(), patience);
    check(BIO_write(in_, buffer_.data(), static_cast<int>(size)) == static_cast<int>(size),
          "buffer the received bytes");
  } catch (const ConnectionError& e) {
    if (SSL_is_init_finished(session_.get())) throw;
    const std::string what = e.what();
    const bool hung_up = what.find("closed the connection") != std::string::npos;
    throw ConnectionError(
        what + " (during the TLS handshake; if this port is without TLS, use a redis:// URL" +
        (hung_up ? "; a server that has reached its maxclients closes the connection in the same way)" : ")"));
  }
}

// After a failed write: throws the alert that the server sent before it closed the connection, if there is one.
void TlsTransport::drain_final_error() {
  try {
    Patience none{Deadline{}};
    fill(none);
  } catch (const ConnectionError&) {
    return;
  }
  ERR_clear_error();
  char first = 0;
  const int got = SSL_peek(session_.get(), &first, 1);
  if (SSL_get_error(session_.get(), got) == SSL_ERROR_SSL) throw ConnectionError(failure(SSL_ERROR_SSL));
}

std::string TlsTransport::failure(int why) const {
  if (why == SSL_ERROR_ZERO_RETURN) return "the server at " + server_ + " closed the connection";
  const long verdict = SSL_get_verify_result(session_.get());
  if (verdict != X509_V_OK) return bad_certificate(verdict);
  return bad_session(ERR_GET_REASON(ERR_peek_error()));
}

std::string TlsTransport::bad_certificate(long verdict) const {
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

std::string TlsTransport::bad_session(int reason) const {
  const std::string whose = "the server at " + server_;
  const bool has_client_certificate = !options_.cert_file.empty();
  const char* advice = "; set tls.cert_file and tls.key_file";
  switch (reason) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return whose + " requires a client certificate: " + openssl_error() + advice;
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      if (has_client_certificate) break;
      return whose + " refuses the TLS handshake: " + openssl_error() + "; if it requires a client certificate" +
             advice;
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      if (!has_client_certificate) break;
      return whose + " refuses the client certificate '" + options_.cert_file + "': " + openssl_error();
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      return whose + " does not answer in TLS: " + openssl_error() + "; use its TLS port, or a redis:// URL";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return whose + " does not speak TLS 1.2 or newer: " + openssl_error();
    default:
      break;
  }
  return "TLS with " + server_ + " failed: " + openssl_error();
}

}  // namespace

Tls::Tls(const Address& address, const TlsOptions& options)
    : address_(address), options_(options), name_(name_to_check(address, options)), context_(new_context()) {
  check(context_ != nullptr, "start OpenSSL");
  check(SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION) == 1, "require TLS 1.2");
  SSL_CTX_set_options(context_.get(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  load_client_certificate();
  load_authorities();  // last: those of the system are many
}

void Tls::load_authorities() {
  const auto& file = options_.ca_file;
  if (file.empty()) {
    check(SSL_CTX_set_default_verify_paths(context_.get()) == 1, "load the system's certificate authorities");
  } else {
    check_file(SSL_CTX_load_verify_locations(context_.get(), file.c_str(), nullptr) == 1, "tls.ca_file", file);
  }
}

void Tls::load_client_certificate() {
  const auto& cert = options_.cert_file;
  const auto& key = options_.key_file;
  if (cert.empty() && key.empty()) return;
  if (key.empty()) throw std::invalid_argument("tls.key_file: empty, but tls.cert_file is set; its key is needed");
  if (cert.empty()) throw std::invalid_argument("tls.cert_file: empty, but tls.key_file is set; set both or none");
  // Without this callback, OpenSSL would prompt for the key's password on the terminal.
  bool locked = false;
  SSL_CTX_set_default_passwd_cb_userdata(context_.get(), &locked);
  SSL_CTX_set_default_passwd_cb(context_.get(), [](char*, int, int, void* asked) {
    *static_cast<bool*>(asked) = true;
    return -1;
  });
  check_file(SSL_CTX_use_certificate_chain_file(context_.get(), cert.c_str()) == 1, "tls.cert_file", cert);
  const bool loaded = SSL_CTX_use_PrivateKey_file(context_.get(), key.c_str(), SSL_FILETYPE_PEM) == 1;
  if (locked) {
    throw std::invalid_argument("tls.key_file: '" + key + "' is encrypted; give a key file without a password");
  }
  check_file(loaded, "tls.key_file", key);
  SSL_CTX_set_default_passwd_cb_userdata(context_.get(), nullptr);
}

std::unique_ptr<Transport> Tls::start(std::unique_ptr<Transport> link, Deadline deadline) {
  ERR_clear_error();
  auto session = std::make_unique<TlsTransport>(context_.get(), std::move(link), address_, options_, name_);
  session->handshake(deadline);
  return session;
}

void Tls::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

}  // namespace delayqueue::redis
