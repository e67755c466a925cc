import ArgumentParser

/// The numbers of `sysexits.h`, which init systems and scripts know. 64, a wrong command line, is ArgumentParser's own.
extension ExitCode {
    /// Something that should not happen did; the log says what.
    static let internalError = ExitCode(70)
    /// The configuration is wrong, or names what cannot be used.
    static let configuration = ExitCode(78)
}
