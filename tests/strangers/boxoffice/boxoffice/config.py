from pydantic_settings import BaseSettings


class Settings(BaseSettings):
    database_url: str = "postgresql+psycopg://localhost/boxoffice"
    pool_size: int = 10


settings = Settings()
