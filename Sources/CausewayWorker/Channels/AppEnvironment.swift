/// An app in one of APNs' two environments. The channels of one environment do not exist in the other.
package struct AppEnvironment: Hashable, Sendable {
    package var app: String
    /// `production` or `sandbox`.
    package var environment: String
}
