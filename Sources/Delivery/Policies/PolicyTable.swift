import LiveActivity

/// The policies in the form that the core needs: each is named by an index, and its numbers are in a value
/// that is cheap to copy.
package struct PolicyTable: Sendable {
    package struct Numbers: BitwiseCopyable {
        package var pace: Policy.Pace
        package var startBudget: Policy.Bucket
        /// How long a start waits at most before it asks Redis for its device's budget again.
        package var startIntervalMilliseconds: Int64
        package var startSeconds: Int64
        package var alertSeconds: Int64
        package var updateSeconds: Int64
        package var endSeconds: Int64
    }

    private let names: [[UInt8]]
    private let numbers: [Numbers]
    /// The fields that each policy drops from a body that is too large for APNs.
    private let droppedFields: [DroppedFields]
    private let lifetimesMilliseconds: [Int64]
    private let restarts: [Bool]
    /// Whether any policy limits the lifetime of activities.
    package let hasLifetimes: Bool

    package init(_ policies: [Policy]) {
        names = policies.map { Array($0.name.utf8) }
        droppedFields = policies.map { DroppedFields($0.oversize) }
        numbers = policies.map {
            Numbers(
                pace: $0.pace,
                startBudget: $0.startBudget,
                startIntervalMilliseconds: $0.startBudget.intervalMilliseconds,
                startSeconds: $0.expiration.startSeconds,
                alertSeconds: $0.expiration.alertSeconds,
                updateSeconds: $0.expiration.updateSeconds,
                endSeconds: $0.expiration.endSeconds
            )
        }
        lifetimesMilliseconds = policies.map { $0.lifetimeSeconds * 1_000 }
        restarts = policies.map { $0.afterLifetime == .restart }
        hasLifetimes = lifetimesMilliseconds.contains { $0 > 0 }
    }

    package subscript(_ policy: UInt8) -> Numbers { numbers[Int(policy)] }

    package func droppedFields(_ policy: UInt8) -> DroppedFields { droppedFields[Int(policy)] }
    /// Returns how long an activity of this policy may live, in milliseconds; 0: without limit.
    package func lifetimeMilliseconds(_ policy: UInt8) -> Int64 { lifetimesMilliseconds[Int(policy)] }
    /// Whether Causeway starts an activity again after it has ended the activity at its lifetime.
    package func restartsAfterLifetime(_ policy: UInt8) -> Bool {
        restarts[Int(policy)] && lifetimesMilliseconds[Int(policy)] > 0
    }

    package func index(of name: UnsafeRawBufferPointer) -> UInt8? {
        for position in 0..<names.count {
            let matches = names[position].withUnsafeBytes { isEqual($0, name) }
            if matches { return UInt8(position) }
        }
        return nil
    }
}
