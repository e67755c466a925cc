import APNs
import CausewayConfiguration
import Glibc

/// A configured signing key: its file, and the key's id.
///
/// Every key has its own id, so a replaced key file usually needs another id. A second file contains this id. The
/// second file has the name of the key file with ``identifierFileSuffix`` at the end. In Kubernetes both files are in
/// one secret and are replaced together. Without the second file, the configured id applies.
struct ConfiguredSigningKey: Hashable {
    static let identifierFileSuffix = ".id"

    var teamIdentifier: String
    var configuredIdentifier: String
    var file: String

    /// Returns the key's id: the text of the `.id` file, or the configured id if this file does not exist.
    ///
    /// - Throws: if the `.id` file exists and cannot be read.
    func readIdentifier() throws(SecretFileError) -> String {
        let path = file + Self.identifierFileSuffix
        guard access(path, F_OK) == 0 else { return configuredIdentifier }
        return try SecretFile.readPassword(path)
    }
}
