#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/layout.h"

namespace rtx::bundle {

namespace {

constexpr std::string_view kSecretTitle = "rtx-synth secret key 1\n";
constexpr std::string_view kPublicTitle = "rtx-synth public key 1\n";

using PublicKey = std::array<unsigned char, 32>;

Status check_name(const std::string& name) {
  const bool plain = !name.empty() && name.size() <= 64 && std::isalnum(static_cast<unsigned char>(name[0])) &&
                     std::all_of(name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.'; });
  if (plain) return success();
  return user_error("'" + name + "' is no name for a key", "a name begins with a letter or digit and has up to 64 letters, digits, '.', '-' and '_'");
}

bool others_may_write(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return false;
  return (info.st_mode & 022) != 0 || (info.st_uid != geteuid() && info.st_uid != 0);
}

std::string public_text(const PublicKey& key) { return std::string(kPublicTitle) + layout::hex(key) + "\n"; }
std::string trusted_path(const std::string& directory, const std::string& name) { return directory + "/trusted/" + name + ".pub"; }

template <size_t N>
bool parse_hex(std::string_view text, std::array<unsigned char, N>& out) {
  const std::string bytes = from_hex(trim(text));
  if (bytes.size() != N) return false;
  std::memcpy(out.data(), bytes.data(), N);
  return true;
}

// Small and of the right title, or nothing.
bool read_public(const std::string& path, PublicKey& out) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > 4096) return false;
  const auto text = read_file(path);
  return text.ok() && starts_with(*text, kPublicTitle) && parse_hex(std::string_view(*text).substr(kPublicTitle.size()), out);
}

Status prepare_directory(const std::string& directory) {
  if (directory.empty())
    return error_of(ErrorKind::output, "there is no place for keys", "neither XDG_CONFIG_HOME nor HOME is set", "set one, or name a key with --sign, or pass --unsigned");
  RTX_CHECK(make_directories(directory, 0700));
  RTX_CHECK(make_directories(directory + "/trusted", 0700));
  if (others_may_write(directory) || others_may_write(directory + "/trusted"))
    return user_error("keys cannot be kept in " + directory, "other users may write to it", "chmod 700 " + directory + " " + directory + "/trusted");
  return success();
}

// Names of the files in `directory` that end in `suffix`, without it.
std::vector<std::string> stems(const std::string& directory, std::string_view suffix) {
  std::vector<std::string> out;
  for (const std::string& file : list_directory(directory))
    if (file.size() > suffix.size() && ends_with(file, suffix)) out.push_back(file.substr(0, file.size() - suffix.size()));
  return out;
}

}  // namespace

std::string default_key_directory() {
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config && config[0] == '/') return std::string(config) + "/rtx-synth";
  if (const char* home = std::getenv("HOME"); home && home[0] == '/') return std::string(home) + "/.config/rtx-synth";
  return {};
}

Result<KeyPair> new_key(const std::string& directory, const std::string& name) {
  RTX_CHECK(check_name(name));
  if (sodium_init() < 0) return error_of(ErrorKind::internal, "no key can be made", "the system has no source of randomness");
  RTX_CHECK(prepare_directory(directory));
  const std::string path = directory + "/" + name + ".key";
  if (file_exists(path)) return user_error("there is a key called '" + name + "' already", path, "choose another name");
  KeyPair key;
  crypto_sign_ed25519_keypair(key.public_key.data(), key.secret_key.data());
  RTX_CHECK(write_file_atomic(path, std::string(kSecretTitle) + layout::hex(key.secret_key) + "\n", 0600));
  RTX_CHECK(write_file_atomic(trusted_path(directory, name), public_text(key.public_key), 0600));
  return key;
}

Result<KeyPair> load_key(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return user_error("cannot read the key " + path, std::strerror(errno), "rtx key new NAME makes one");
  if (!S_ISREG(info.st_mode) || info.st_size > 4096) return user_error("cannot read the key " + path, "it is not a key file");
  if ((info.st_mode & 077) != 0) return user_error("the secret key " + path + " is not secret", "other users may read or write it", "chmod 600 " + path);
  RTX_TRY(const std::string text, read_file(path));
  KeyPair key;
  if (!starts_with(text, kSecretTitle) || !parse_hex(std::string_view(text).substr(kSecretTitle.size()), key.secret_key))
    return user_error("cannot read the key " + path, "it is not a secret key made by rtx key new");
  // The second half of an Ed25519 secret key is its public key; one that does not follow from the seed was edited.
  PublicKey derived{};
  std::array<unsigned char, 64> again{};
  crypto_sign_ed25519_seed_keypair(derived.data(), again.data(), key.secret_key.data());
  if (again != key.secret_key) return user_error("cannot read the key " + path, "its two halves do not belong together");
  key.public_key = derived;
  return key;
}

Result<std::vector<KeyInfo>> list_keys(const std::string& directory) {
  std::vector<KeyInfo> keys;
  const auto entry = [&](const std::string& public_hex) -> KeyInfo* {
    for (auto& key : keys)
      if (key.public_hex == public_hex) return &key;
    return nullptr;
  };
  for (const std::string& name : stems(directory, ".key")) {
    RTX_TRY(const KeyPair key, load_key(directory + "/" + name + ".key"));
    keys.push_back({name, layout::hex(key.public_key), true, false});
  }
  for (const std::string& name : stems(directory + "/trusted", ".pub")) {
    PublicKey key{};
    if (!read_public(trusted_path(directory, name), key)) continue;
    const std::string text = layout::hex(key);
    if (KeyInfo* known = entry(text))
      known->trusted = true;
    else
      keys.push_back({name, text, false, true});
  }
  if (others_may_write(directory) || others_may_write(directory + "/trusted"))
    for (auto& key : keys) key.trusted = false;
  return keys;
}

Status trust(const std::string& directory, const std::string& public_hex_or_file, const std::string& name) {
  RTX_CHECK(check_name(name));
  PublicKey key{};
  if (!parse_hex(public_hex_or_file, key) && !read_public(public_hex_or_file, key))
    return user_error("'" + public_hex_or_file + "' is no public key", "neither 64 hex digits nor a .pub file made by rtx");
  RTX_CHECK(prepare_directory(directory));
  PublicKey present{};
  const std::string path = trusted_path(directory, name);
  if (file_exists(path) && (!read_public(path, present) || present != key))
    return user_error("another key is trusted under the name '" + name + "' already", path, "choose another name, or rtx key untrust " + name);
  return write_file_atomic(path, public_text(key), 0600);
}

Status untrust(const std::string& directory, const std::string& name) {
  RTX_CHECK(check_name(name));
  const std::string path = trusted_path(directory, name);
  if (!file_exists(path)) return user_error("no key is trusted under the name '" + name + "'", path + " is not there", "rtx key list shows the names");
  if (::unlink(path.c_str()) != 0) return error_of(ErrorKind::output, "cannot remove " + path, std::strerror(errno));
  return success();
}

bool is_trusted(const std::string& directory, const std::array<unsigned char, 32>& public_key) {
  if (directory.empty() || others_may_write(directory) || others_may_write(directory + "/trusted")) return false;
  for (const std::string& name : stems(directory + "/trusted", ".pub")) {
    PublicKey key{};
    const std::string path = trusted_path(directory, name);
    if (!others_may_write(path) && read_public(path, key) && key == public_key) return true;
  }
  return false;
}

}  // namespace rtx::bundle
