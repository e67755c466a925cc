import HTTP

/// One HTTP request to the simulator's control interface.
struct ControlCall: Sendable {
    var method: String
    var path: String
    var query: HTTPQuery
    var body: [UInt8]

    /// Reads the body with a closure. Throws if the body is not a JSON object.
    func readBody<Value>(
        _ read: (borrowing JSONTape) throws(SimulatorError) -> Value
    ) throws(SimulatorError) -> Value {
        let result = body.withUnsafeBytes { bytes -> Result<Value, SimulatorError> in
            var tape = JSONTape()
            do throws(JSONTape.Fault) {
                try tape.read(bytes)
            } catch {
                return .failure(SimulatorError(.invalidRequest, "body: not JSON: \(error)"))
            }
            guard tape[0].kind == .object else {
                return .failure(SimulatorError(.invalidRequest, "body: not an object"))
            }
            do throws(SimulatorError) {
                return .success(try read(tape))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// Reads the body with a closure if the call has a body; otherwise returns `defaultValue`.
    func readBodyIfPresent<Value>(
        default defaultValue: Value,
        _ read: (borrowing JSONTape) throws(SimulatorError) -> Value
    ) throws(SimulatorError) -> Value {
        body.isEmpty ? defaultValue : try readBody(read)
    }

    func requiredQueryItem(_ name: String) throws(SimulatorError) -> String {
        guard let value = query[name] else { throw SimulatorError(.invalidRequest, "query: \(name) is missing") }
        return value
    }

    /// Returns the value of a query item, or `defaultValue` if the item is missing. Throws if the value is not a whole
    /// number, or is negative.
    func queryNumber(_ name: String, default defaultValue: Int) throws(SimulatorError) -> Int {
        guard let text = query[name] else { return defaultValue }
        guard let value = Int(text), value >= 0 else {
            throw SimulatorError(.invalidRequest, "query: \(name) is not a whole number from 0")
        }
        return value
    }
}

/// Access to the properties of the JSON object in a request. Errors name the property.
extension JSONTape {
    func requiredString(_ name: StaticString, of object: Int) throws(SimulatorError) -> String {
        guard let value = try optionalString(name, of: object) else {
            throw SimulatorError(.invalidRequest, "\(name) is missing")
        }
        return value
    }

    func optionalString(_ name: StaticString, of object: Int) throws(SimulatorError) -> String? {
        guard let index = member(name, of: object), self[index].kind != .null else { return nil }
        guard self[index].kind == .string else { throw SimulatorError(.invalidRequest, "\(name) is not a string") }
        return string(index)
    }

    func optionalInt64(_ name: StaticString, of object: Int) throws(SimulatorError) -> Int64? {
        guard let index = member(name, of: object), self[index].kind != .null else { return nil }
        guard let value = integer(index) else { throw SimulatorError(.invalidRequest, "\(name) is not a whole number") }
        return value
    }

    /// Returns a whole number; nil if the property is missing or null. Throws if the number does not fit the type
    /// `Number`.
    func optionalInteger<Number: FixedWidthInteger>(
        _ name: StaticString,
        of object: Int
    ) throws(SimulatorError) -> Number? {
        guard let value = try optionalInt64(name, of: object) else { return nil }
        guard let number = Number(exactly: value) else { throw SimulatorError(.invalidRequest, "\(name) does not fit") }
        return number
    }

    /// Throws if the request's object has a property that `names` does not contain. The error says `problem`, and names
    /// the property.
    func rejectProperties(except names: Set<String>, _ problem: String) throws(SimulatorError) {
        try forEachMember(of: 0) { (key, _) throws(SimulatorError) in
            let name = string(key)
            guard names.contains(name) else { throw SimulatorError(.invalidRequest, "\(problem): \(name)") }
        }
    }

    func optionalDouble(_ name: StaticString, of object: Int) throws(SimulatorError) -> Double? {
        guard let index = member(name, of: object), self[index].kind != .null else { return nil }
        guard let value = double(index) else { throw SimulatorError(.invalidRequest, "\(name) is not a number") }
        return value
    }

    func optionalBool(_ name: StaticString, of object: Int) throws(SimulatorError) -> Bool? {
        guard let index = member(name, of: object), self[index].kind != .null else { return nil }
        switch self[index].kind {
        case .trueLiteral: return true
        case .falseLiteral: return false
        default: throw SimulatorError(.invalidRequest, "\(name) is not true or false")
        }
    }

    func optionalStrings(_ name: StaticString, of object: Int) throws(SimulatorError) -> [String]? {
        guard let index = member(name, of: object), self[index].kind != .null else { return nil }
        guard self[index].kind == .array else { throw SimulatorError(.invalidRequest, "\(name) is not a list") }
        var strings: [String] = []
        try forEachElement(of: index) { (element) throws(SimulatorError) in
            guard self[element].kind == .string else {
                throw SimulatorError(.invalidRequest, "\(name) is not a list of strings")
            }
            strings.append(string(element))
        }
        return strings
    }

    /// Returns a property of any type as JSON text; nil if it is missing. A string keeps its quotes.
    func optionalJSON(_ name: StaticString, of object: Int) -> String? {
        member(name, of: object).map { String(decoding: json($0), as: UTF8.self) }
    }

    /// Returns the JSON text of a value. Unlike `bytes`, includes the quotes of a string.
    func json(_ index: Int) -> UnsafeRawBufferPointer {
        let value = self[index]
        guard value.kind == .string else { return bytes(index) }
        return UnsafeRawBufferPointer(rebasing: text[Int(value.start) - 1..<Int(value.end) + 1])
    }
}
