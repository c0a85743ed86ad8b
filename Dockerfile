# An image of `cosmo serve` for feature rows; for texts install ".[serve,text]". See docs/guides/serving.md.
FROM python:3.13-slim
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir ".[serve]" && useradd --create-home cosmo
USER cosmo
EXPOSE 8766
ENTRYPOINT ["cosmo", "serve", "/models/model.cosmo", "--host", "0.0.0.0"]
