#pragma once
// The bundle file *.rtxgc: format in docs/adr (the bundle format). Writer, reader, verdicts.
//
// Reading is safe against any bytes: every size, offset and index is checked before use; a damaged, truncated, oversized or
// hostile file gives an Error of kind bundle and a sentence, and never more memory than a small multiple of the file's own size.
// A path that cannot be opened at all is the user's mistake (kind user).
#include <array>
#include <optional>
#include <string>

#include "backend/caps.h"
#include "base/result.h"
#include "bundle/plan.h"

namespace rtx::bundle {

constexpr int kFormatMajor = 1;
constexpr int kFormatMinor = 1;  // 1: views of a step's arguments
constexpr int kRuntimeAbi = 1;
constexpr int kRuntimeAbiOfViews = 2;  // a plan whose steps have views, which a runtime of ABI 1 would leave out
int runtime_abi_of(const Plan& plan);

struct KeyPair {
  std::array<unsigned char, 32> public_key{};
  std::array<unsigned char, 64> secret_key{};
};

struct WriteOptions {
  const KeyPair* key = nullptr;   // null: unsigned
  bool sources = true;            // include kernel sources
  std::string constants_file;     // side file for constants, a plain name in the bundle's directory; empty: inside the bundle
};
// Atomic: temporary file, fsync, rename. Kind output when it cannot be written. The same plan and key give the same bytes.
Status write(const Plan& plan, const std::string& path, const WriteOptions& options);

enum class VerdictKind : uint8_t { exact, compatible, rebuild, refuse };
struct FieldVerdict {
  std::string field, found, wanted;
  bool matches = false;
};
struct Verdict {
  VerdictKind kind = VerdictKind::refuse;
  std::vector<FieldVerdict> fields;
  std::string sentence;  // "compatible: tuned elsewhere (device ... here ...)"
};
std::string_view name(VerdictKind kind);
// Compares target, arch, device, driver and runtime_abi (never synth_sha). No device context is made.
Verdict judge(const Identity& file, const backend::Caps& here);

enum class SignatureState : uint8_t { trusted, unknown_signer, missing };
struct ReadOptions {
  // Decides whether a public key is trusted; empty function: none is.
  std::function<bool(const std::array<unsigned char, 32>&)> trusted;
  bool allow_unsigned = false;    // accept missing or unknown signatures (never wrong ones)
  bool verify_constants = true;   // false: the caller verifies before use with Opened::verify_constant(s)
  bool side_file = false;         // of open_manifest: a side file of constants must be there, and have its size
  bool sources = false;           // unpack the kernel sources, too; they may be larger than the file
};
// A mapped bundle. The plan's binaries and constants point into the mapping.
struct Opened {
  Plan plan;
  SignatureState signature = SignatureState::missing;
  std::string signer;             // hex of the public key, empty when unsigned
  int64_t file_bytes = 0;
  int format_major = 0, format_minor = 0;
  std::vector<std::pair<std::string, std::string>> sections;  // name, "offset size blake2b" for inspect
  std::function<Status(int constant)> verify_constant;        // checks the chunks of one constant; thread-safe
  std::function<Status(int threads)> verify_constants;        // all of them, on at most that many threads; empty when there are none
};
Result<Opened> open(const std::string& path, const ReadOptions& options);
// For `rtx check` and `inspect`: the same checks, but the bytes of constants are neither looked at nor in the plan.
Result<Opened> open_manifest(const std::string& path, const ReadOptions& options);

// Keys (Ed25519, libsodium) in a directory of mode 0700, files 0600: NAME.key is a secret key of this user, trusted/NAME.pub the
// public half of a key whose bundles may run here. A new key is trusted at once. A directory that others may write to trusts nobody.
// $XDG_CONFIG_HOME/rtx-synth, else ~/.config/rtx-synth, else empty.
std::string default_key_directory();
Result<KeyPair> new_key(const std::string& directory, const std::string& name);
Result<KeyPair> load_key(const std::string& path);
struct KeyInfo {
  std::string name, public_hex;
  bool own = false, trusted = false;
};
Result<std::vector<KeyInfo>> list_keys(const std::string& directory);
Status trust(const std::string& directory, const std::string& public_hex_or_file, const std::string& name);
Status untrust(const std::string& directory, const std::string& name);
bool is_trusted(const std::string& directory, const std::array<unsigned char, 32>& public_key);

}  // namespace rtx::bundle
