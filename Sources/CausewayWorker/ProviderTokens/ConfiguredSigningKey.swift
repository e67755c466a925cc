import APNs
import CausewayConfiguration
import Glibc

/// A configured signing key: its file, and the key's id.
///
/// A second file may contain the id, because a replaced key file usually has a key with another id. Its name is that of
/// the key file with ``identifierFileSuffix`` at the end. In Kubernetes both files are in one secret and are replaced
/// together. Without the second file, the configured id applies.
struct ConfiguredSigningKey: Hashable {
    static let identifierFileSuffix = ".id"

    var teamId: String
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
