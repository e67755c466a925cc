import Redis

extension RedisWarning {
    /// The warning in words. A worker logs the same warning as `redis-warning`.
    var text: String {
        switch self {
        case .evicts(let policy):
            // The server chooses the text of the policy, so print it with its control characters escaped.
            "Redis may evict keys, and then pushes may be repeated: its maxmemory-policy must be noeviction, "
                + "but is \(String(reflecting: policy))"
        case .evictionPolicyUnknown(let error):
            "Redis does not say its maxmemory-policy, which must be noeviction: \(error)"
        case .versionUnknown(let error): "Redis does not say its version: \(error)"
        }
    }
}
