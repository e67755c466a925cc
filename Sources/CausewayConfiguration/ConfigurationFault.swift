/// One thing that is wrong with a configuration, and where it stands.
package struct ConfigurationFault: Error, Sendable, Equatable, CustomStringConvertible {
    /// `file:line:column`, or the name of an environment variable, or the file alone for what is missing.
    package var place: String
    /// The key, such as `worker.lanes`; empty where the document as a whole is meant.
    package var key: String
    /// What is wrong, and what would be right. Never holds the value of a secret.
    package var message: String

    package init(place: String, key: String, message: String) {
        self.place = place
        self.key = key
        self.message = message
    }

    /// One line, in the form that editors and CI logs make clickable.
    package var description: String {
        key.isEmpty ? "\(place): \(message)" : "\(place): \(key): \(message)"
    }
}

/// Everything that is wrong with a configuration, at once.
package struct ConfigurationFaults: Error, Sendable, Equatable, CustomStringConvertible {
    /// Never empty; the file's in the order of its lines, then the environment's in the order of the names.
    package var faults: [ConfigurationFault]

    package var description: String {
        faults.map(\.description).joined(separator: "\n")
    }
}
