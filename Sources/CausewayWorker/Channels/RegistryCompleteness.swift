import Redis

/// What the field `t:` of a registry says about its entries, read together with the run id of the server that has it.
///
/// | text | meaning |
/// | --- | --- |
/// | `<UNIX ms> <run id>` | complete since then, on this run of the server |
/// | `<UNIX ms>` | complete since then; the server reports no run id, or an earlier release restored the registry |
/// | `?<random number> <run id>` | a token: the registry is being restored; this began on this run of the server |
///
/// A restart and a failover change the run id. The server may then lack the newest writes, so a registry that was
/// complete on another run counts as incomplete. Without this rule, a lost entry would give its audience a second
/// channel, and phones on the first channel would get nothing more.
struct RegistryCompleteness: Equatable {
    /// The text of the field; nil: Redis has no such field, so it may have lost the registry.
    let text: [UInt8]?
    /// The run id of the server that has the registry; nil: the server does not report it.
    let runIdentifier: String?

    init(_ text: [UInt8]?, on server: ServerInformation) { self.init(text, runIdentifier: server.runIdentifier) }

    init(_ text: [UInt8]?, runIdentifier: String?) { (self.text, self.runIdentifier) = (text, runIdentifier) }

    /// Whether the registry has all entries of the channels topic.
    var isComplete: Bool {
        guard let text, !isToken else { return false }
        return runIdentifier.map { Self.runSuffix(of: text).elementsEqual(" \($0)".utf8) } ?? true
    }

    var isToken: Bool { text?.first == UInt8(ascii: "?") }

    /// Returns a token for a restoration that begins now, different from all other tokens.
    func makeToken() -> [UInt8] {
        let runSuffix = runIdentifier.map { " \($0)" } ?? ""
        return Array("?\(UInt64.random(in: .min ... .max))\(runSuffix)".utf8)
    }

    /// Returns the text of a registry that a restoration has completed. The text names the run of the server on which
    /// the restoration began (the run id in the token): a later run may lack entries that the restoration has added.
    static func makeText(completeSinceWallMilliseconds: Int64, token: [UInt8]) -> [UInt8] {
        Array(String(completeSinceWallMilliseconds).utf8) + runSuffix(of: token)
    }

    /// Returns the run id of a text, with the space before it; empty if the text has none.
    private static func runSuffix(of text: [UInt8]) -> ArraySlice<UInt8> {
        text[(text.firstIndex(of: UInt8(ascii: " ")) ?? text.endIndex)...]
    }
}
