#include "support/tls_files.h"

namespace test {
namespace {

constexpr const char* kNewKey = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
constexpr const char* kLocal = "DNS:localhost,IP:127.0.0.1";
constexpr const char* kTwoDays = "-days 2";
// OpenSSL 3.5 refuses a negative -days.
constexpr const char* kInThePast = "-startdate 20200101000000Z -enddate 20200102000000Z";

}  // namespace

const TlsFiles& TlsFiles::shared() {
  static const TlsFiles files;
  return files;
}

TlsFiles::TlsFiles() {
  ca = authority("ca");
  other_ca = authority("other");
  server = certificate("server", "ca", kLocal, kTwoDays);
  named = certificate("named", "ca", "DNS:queue.example", kTwoDays);
  expired = certificate("expired", "ca", kLocal, kInThePast);
  client = certificate("client", "ca", "DNS:client.example", kTwoDays);
  foreign_client = certificate("foreign", "other", "DNS:client.example", kTwoDays);
  locked_key = file("locked.key");
  openssl("pkcs8 -topk8 -passout pass:secret -in " + client.key + " -out " + locked_key);
}

std::string TlsFiles::authority(const std::string& name) {
  const auto base = file(name);
  openssl(std::string("req -x509 ") + kNewKey + " -days 2 -subj '/CN=" + name + " authority' -keyout " + base +
          ".key -out " + base + ".pem");
  return base + ".pem";
}

Certificate TlsFiles::certificate(const std::string& name, const std::string& signer, const std::string& names,
                                  const std::string& validity) {
  const auto base = file(name);
  const auto by = file(signer);
  std::ofstream(base + ".ext") << "subjectAltName=" << names << "\n";
  openssl(std::string("req -new ") + kNewKey + " -subj /CN=" + name + " -keyout " + base + ".key -out " + base +
          ".csr");
  std::ofstream(base + ".index");
  std::ofstream(base + ".serial") << "02\n";
  std::ofstream(base + ".conf") << "[ca]\ndefault_ca=own\n[any]\ncommonName=supplied\n[own]\npolicy=any\n"
                                << "database=" << base << ".index\nserial=" << base << ".serial\n"
                                << "new_certs_dir=" << file("") << "\n";
  openssl("ca -batch -notext -md sha256 -config " + base + ".conf " + validity + " -extfile " + base + ".ext -cert " +
          by + ".pem -keyfile " + by + ".key -in " + base + ".csr -out " + base + ".pem");
  return {base + ".pem", base + ".key"};
}

void TlsFiles::openssl(const std::string& arguments) {
  const auto log = file("log");
  if (std::system(("openssl " + arguments + " >" + log + " 2>&1").c_str()) == 0) return;
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  throw std::runtime_error("openssl " + arguments + ": " + text.str());
}

std::vector<std::string> serving(const Certificate& own, const std::string& ask_client) {
  return {"--tls-cert-file",    own.cert,  "--tls-key-file", own.key, "--tls-ca-cert-file", TlsFiles::shared().ca,
          "--tls-auth-clients", ask_client};
}

std::vector<std::string> serving(const Port& port, const std::string& ask_client) {
  std::vector<std::string> words = serving(TlsFiles::shared().server, ask_client);
  words.insert(words.end(), {"--tls-port", std::to_string(port.number()), "--bind", "127.0.0.1"});
  return words;
}

delayqueue::TlsOptions trusting(const std::string& ca, const Certificate& client) {
  delayqueue::TlsOptions options;
  options.ca_file = ca;
  options.cert_file = client.cert;
  options.key_file = client.key;
  return options;
}

}  // namespace test
