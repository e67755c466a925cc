/// An app in one of APNs' environments. Each has its own channels.
package struct AppEnvironment: Hashable, Sendable {
    package var app: String
    /// `production` or `sandbox`.
    package var environment: String
}
