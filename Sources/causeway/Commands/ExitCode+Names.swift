import ArgumentParser

/// Exit codes of `sysexits.h`, which init systems and scripts know. For a faulty command line, ArgumentParser itself
/// uses 64.
extension ExitCode {
    /// The worker has stopped on its own. The log says why.
    static let internalError = ExitCode(70)
    /// The configuration is faulty, or names a file or key that cannot be used.
    static let configurationFault = ExitCode(78)
}
