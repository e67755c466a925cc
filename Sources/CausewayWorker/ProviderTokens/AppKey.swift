import APNs
import CausewayConfiguration
import Glibc

/// A configured signing key: its file, and which key that is.
///
/// Every key has an id of its own, so a file that is replaced usually brings another id. A second file beside it, named as the first with
/// ``identifierSuffix`` added, says it: in Kubernetes both stand in one secret, and are swapped at once. Without it the configured id holds.
struct AppKey: Hashable {
    static let identifierSuffix = ".id"

    var teamIdentifier: String
    var configuredIdentifier: String
    var file: String

    /// - Throws: if the second file is there and cannot be read.
    func identifier() throws(SecretFileError) -> String {
        let path = file + Self.identifierSuffix
        guard access(path, F_OK) == 0 else { return configuredIdentifier }
        return try SecretFile.read(path)
    }
}
