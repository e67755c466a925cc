/// One fault of a configuration, and its place.
package struct ConfigurationFault: Error, Sendable, Equatable, CustomStringConvertible {
    /// `file:line:column`, or the name of an environment variable. For a fault without a line, such as a missing key:
    /// the file, or `environment` if there is no file.
    package var place: String
    /// The key, such as `worker.lanes`. Empty if the fault concerns the whole document, or an environment variable that
    /// belongs to no key.
    package var key: String
    /// What is wrong and, in most cases, what is allowed. Never contains the value of a secret.
    package var message: String

    package init(place: String, key: String, message: String) {
        self.place = place
        self.key = key
        self.message = message
    }

    /// One line, in the form that editors and CI logs turn into a link.
    package var description: String {
        key.isEmpty ? "\(place): \(message)" : "\(place): \(key): \(message)"
    }
}

/// All faults of a configuration together.
package struct ConfigurationFaults: Error, Sendable, Equatable, CustomStringConvertible {
    /// Never empty. The order: the faults in the file by line, the faults without a line, the faults of environment
    /// variables by name.
    package var faults: [ConfigurationFault]

    package var description: String {
        faults.map(\.description).joined(separator: "\n")
    }
}
