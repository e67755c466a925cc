import LiveActivity

/// One value for each APNs environment. A dictionary cannot be used in a slot, because it is not `BitwiseCopyable`.
struct ByEnvironment<Value: BitwiseCopyable>: BitwiseCopyable {
    var production: Value
    var sandbox: Value

    init(repeating value: Value) {
        production = value
        sandbox = value
    }

    subscript(environment: APNsEnvironment) -> Value {
        @inline(__always) get {
            switch environment {
            case .production: production
            case .sandbox: sandbox
            }
        }
        @inline(__always) set {
            switch environment {
            case .production: production = newValue
            case .sandbox: sandbox = newValue
            }
        }
    }
}
