# The Homebrew formula; scripts/release fills it in. It belongs into Formula/ of a tap.
class Whetstone < Formula
  desc "Performance, registry and evaluation of agent skills"
  homepage "https://github.com/whetstone-dev/whetstone"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@URL@/whetstone_@VERSION@_darwin_arm64.tar.gz"
      sha256 "@DARWIN_ARM64@"
    end
    on_intel do
      url "@URL@/whetstone_@VERSION@_darwin_amd64.tar.gz"
      sha256 "@DARWIN_AMD64@"
    end
  end

  on_linux do
    on_arm do
      url "@URL@/whetstone_@VERSION@_linux_arm64.tar.gz"
      sha256 "@LINUX_ARM64@"
    end
    on_intel do
      url "@URL@/whetstone_@VERSION@_linux_amd64.tar.gz"
      sha256 "@LINUX_AMD64@"
    end
  end

  def install
    bin.install "whetstone"
    bash_completion.install "completions/whetstone.bash" => "whetstone"
    zsh_completion.install "completions/_whetstone"
    fish_completion.install "completions/whetstone.fish"
    doc.install "README.md", "CHANGELOG.md", "THIRD_PARTY_LICENSES.txt"
  end

  service do
    run [opt_bin/"whetstone", "serve", "--data", var/"whetstone"]
    keep_alive true
    log_path var/"log/whetstone.log"
    error_log_path var/"log/whetstone.log"
  end

  test do
    assert_match "v#{version}", shell_output("#{bin}/whetstone version")
  end
end
